// SPDX-License-Identifier: MIT
// test-timeout: 300
// GET /api/events as a stream, from a real daemon: numbered, filtered, resumed without a gap across
// restarts, kills and readers that are too slow.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { Stream, stream } from './lib/stream.mjs';

const count = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const asPage = { headers: { Accept: 'application/json' } };
const asStream = (more) => ({ headers: { Accept: 'text/event-stream', ...more } });

/** A page of the journal. */
async function page(h, query) {
  return await h.ok('GET', `/api/events?${query}`, undefined, asPage);
}

/** The number of the newest event. */
async function newest(h) {
  return (await page(h, 'limit=1')).last;
}

/** Many tasks in few requests, so many events. */
async function tasks(h, total, more = {}) {
  for (let left = total; left > 0; left -= 500) {
    const some = Array.from({ length: Math.min(left, 500) }, () => ({ title: 'x', ...more }));
    await h.ok('POST', '/api/tasks', some);
  }
}

test('a stream begins now and tells each event in the words of the page', async (t) => {
  const h = await house(t);
  await h.task();
  const s = await stream(t, h);
  assert.equal(s.response.headers['content-type'], 'text/event-stream');
  assert.equal(s.response.headers['cache-control'], 'no-store');
  assert.equal(s.retry, 1000);
  assert.equal(s.lastId, '1');
  await h.task({ title: 'line\nbreak "quoted" \u2028 ü' });
  await h.session('ann');
  await s.reaches(3);
  assert.deepEqual(s.numbers, [2, 3]);
  assert.deepEqual(s.events.map(({ type }) => type), ['task:created', 'session:registered']);
  assert.deepEqual(s.events.map(({ data }) => data), (await page(h, 'since=1')).events);
});

test('an id in the past is caught up with, one that cannot be is refused by name', async (t) => {
  const h = await house(t);
  await tasks(h, 20);
  const s = await stream(t, h, { id: 5, query: 'since=1' });
  await h.task();
  assert.deepEqual((await s.reaches(21)).numbers, count(6, 21));
  for (const id of ['99', '-1', 'x', '9223372036854775808', '1e3']) {
    const refused = await h.get('/api/events', asStream({ 'Last-Event-ID': id }));
    assert.equal(refused.status, 400, id);
    assert.equal(refused.json.error, 'INVALID_REQUEST');
    assert.match(refused.json.message, /Last-Event-ID/);
    const query = await h.get(`/api/events?since=${id}`, asStream());
    assert.equal(query.status, 400, id);
    assert.match(query.json.message, /'since'/);
  }
});

test('filters: types with their other names, project, task, summary', async (t) => {
  const h = await house(t);
  const streams = {
    types: await stream(t, h, { query: 'types=task:claimed,claim:released' }),
    project: await stream(t, h, { query: 'project=a' }),
    other: await stream(t, h, { query: 'project=nowhere' }),
  };
  await h.task({ id: 'one', project: 'a' });
  await h.task({ id: 'two', project: 'b' });
  streams.task = await stream(t, h, { query: 'taskId=one&since=0' });
  await h.session('ann');
  await h.ok('POST', '/api/tasks/one/claim', { sessionId: 'ann' });
  await h.ok('POST', '/api/tasks/one/release', { sessionId: 'ann' });
  await h.ok('POST', '/api/tasks/two/claim', { sessionId: 'ann' });
  const seen = async (s, n) => {
    await s.when(`${n} events`, () => s.events.length >= n);
    return s.events.map(({ type, data }) => `${type} ${data.taskId}`);
  };
  const ofOne = ['task:created one', 'task:claimed one', 'task:released one'];
  assert.deepEqual(await seen(streams.types, 3), [...ofOne.slice(1), 'task:claimed two']);
  assert.deepEqual(await seen(streams.project, 3), ofOne);
  assert.deepEqual(await seen(streams.task, 3), ofOne);
  assert.deepEqual(await seen(streams.other, 0), []);
  assert.equal((await h.get('/api/events?taskId=nobody')).json.error, 'TASK_NOT_FOUND');
  assert.equal((await h.get('/api/events?limit=3')).status, 400);
  assert.equal((await h.get('/api/events?colour=red')).status, 400);
});

test('summary leaves out the single claims of a sweep', async (t) => {
  const h = await house(t, { args: ['--orphan-threshold', '1s', '--stale-threshold', '1s'] });
  const full = await stream(t, h);
  const summary = await stream(t, h, { query: 'detail=summary' });
  await h.session('ann');
  for (const id of ['one', 'two']) {
    await h.task({ id });
    await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 'ann' });
  }
  const sweep = () => h.ok('POST', '/api/tasks/claims/cleanup', { type: 'orphaned' });
  await until('ann is silent for too long', async () => (await sweep()).cleaned.count === 2);
  const of = (s, type) => s.events.filter((event) => event.type === type).length;
  await until('it is told', () => of(full, 'claims:cleanup') + of(summary, 'claims:cleanup') === 2);
  assert.equal(of(full, 'task:claim-orphaned'), 2);
  assert.equal(of(summary, 'task:claim-orphaned'), 0);
  assert.deepEqual(full.numbers, (await page(h, 'since=0')).events.map(({ id }) => id));
  const kept = (await page(h, 'since=0&detail=summary')).events.map(({ id }) => id);
  assert.deepEqual(summary.numbers, kept);
});

test('what was pruned is told by one resync, and the stream goes on from there', async (t) => {
  const h = await house(t, { config: ['eventRetention = 1ms'] });
  await tasks(h, 10);
  await until('the events are old enough', async () => {
    await h.ok('POST', '/api/tasks/claims/cleanup', { type: 'all' });
    return (await page(h, 'since=0')).events.length === 0;
  });
  const s = await stream(t, h, { id: 4 });
  await s.reaches(10);
  await h.task();
  await s.reaches(11);
  const seen = s.events.map(({ id, type }) => `${id} ${type}`);
  assert.deepEqual(seen, ['10 resync', '11 task:created']);
  assert.equal(s.events[0].data.firstKept, 11);
  assert.equal(s.events[0].data.last, 10);
});

test('across restarts and kill -9 a reader that resumes misses nothing', async (t) => {
  const h = await house(t);
  let s = await stream(t, h);
  const seen = [];
  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGTERM']) {
    await tasks(h, 30);
    if (signal === 'SIGTERM') await s.reaches(await newest(h));
    await h.stop(signal);
    await s.over;
    if (signal === 'SIGTERM') {
      assert.equal(s.events.at(-1).type, 'shutdown');
      assert.equal(s.events.at(-1).data.retryMs, 1000);
    }
    seen.push(...s.numbers);
    await h.dibs('task', 'add', 'while nobody serves');
    await h.start();
    s = await stream(t, h, { id: s.lastId });
  }
  const end = await newest(h);
  seen.push(...(await s.reaches(end)).numbers);
  assert.deepEqual(seen, count(1, end));
});

test('what another process writes to the same file appears soon', async (t) => {
  const h = await house(t);
  const s = await stream(t, h);
  const waits = [];
  for (let i = 1; i <= 5; i++) {
    /* who brings a setting of his own opens the store himself */
    const { code, err } = await h.dibs('--default-ttl', '45m', 'task', 'add', `t${i}`);
    const written = Date.now();
    assert.equal(code, 0, err);
    await s.reaches(i);
    waits.push(Date.now() - written);
  }
  t.diagnostic(`from the end of the command to the reader: ${waits.join(', ')} ms`);
  assert.ok(Math.max(...waits) < 2000, `took ${waits} ms`);
  assert.deepEqual(s.numbers, count(1, 5));
});

test('a reader that is too slow is hung up on and resumes without a gap', async (t) => {
  const h = await house(t);
  const fast = await stream(t, h);
  const slow = await stream(t, h, { paused: true });
  const large = { description: 'x'.repeat(8000) };
  await until('the daemon has enough of it', async () => {
    await tasks(h, 100, large);
    return /dibs_event_readers_dropped_total [1-9]/.test((await h.get('/metrics')).text);
  });
  slow.response.setEncoding('utf8').on('data', (text) => slow.take(text)).resume();
  await slow.over;
  const end = await newest(h);
  assert.ok(slow.numbers.at(-1) < end);
  const back = await stream(t, h, { id: slow.lastId });
  await Promise.all([back.reaches(end), fast.reaches(end)]);
  assert.deepEqual(fast.numbers, count(1, end));
  assert.deepEqual([...slow.numbers, ...back.numbers], count(1, end));
});

/** Numbers by chance, the same for the same seed (mulberry32). */
function chance(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6D2B79F5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/** A reader that hangs up after a few events and comes back with its last id, until the goal. */
async function restless(h, query, goal, random) {
  const seen = [];
  for (let id = 0; id < goal.end && !goal.over;) {
    const s = new Stream(h, { id, query });
    const patience = 1 + Math.floor(random() * 60);
    goal.streams.add(s);
    const hasEnough = () => s.events.length >= patience || Number(s.lastId) >= goal.end;
    await s.when('it has had enough', hasEnough);
    goal.streams.delete(s);
    seen.push(...s.numbers);
    id = Number(s.lastId);
    s.close();
    await s.over;
  }
  return seen;
}

test('100 readers that come and go at random miss nothing and hear nothing twice', async (t) => {
  const h = await house(t);
  const seed = Number(process.env.DIBS_TEST_SEED ?? Date.now() % 1_000_000);
  const random = chance(seed);
  const goal = { end: Infinity, over: false, streams: new Set() };
  t.diagnostic(`DIBS_TEST_SEED=${seed}`);
  t.after(() => { goal.over = true; });
  const readers = Array.from({ length: 100 },
    (_, i) => restless(h, i % 4 === 3 ? 'project=odd' : '', goal, random));
  const all = Promise.all(readers);
  all.catch(() => {}); // it is waited for below
  for (let i = 0; i < 300; i++) await h.task({ project: i % 2 ? 'even' : 'odd' });
  await h.task({ project: 'odd' }); // the last is for everybody
  goal.end = await newest(h);
  for (const s of goal.streams) s.look();
  const odd = (await page(h, 'since=0&project=odd&limit=1000')).events.map(({ id }) => id);
  for (const [i, seen] of (await all).entries()) {
    assert.deepEqual(seen, i % 4 === 3 ? odd : count(1, goal.end), `reader ${i}`);
  }
});

test('HTTP/1.0 is served; a caller that has said its last is let go', async (t) => {
  const h = await house(t);
  await tasks(h, 3);
  const text = await h.raw('GET /api/events?since=0 HTTP/1.0\r\nHost: localhost\r\n\r\n',
    (soFar) => soFar.includes('id: 3\n'));
  assert.match(text, /^HTTP\/1\.[01] 200 /);
  const socket = net.connect({ port: h.port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  const over = new Promise((done) => socket.on('error', done).on('end', done).on('close', done));
  socket.resume().end('GET /api/events?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await over; // nobody streams to one that cannot be told from one that has gone
  const metrics = async () => (await h.get('/metrics')).text;
  await until('nobody is left', async () => /^dibs_event_readers 0$/m.test(await metrics()));
});
