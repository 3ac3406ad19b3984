// SPDX-License-Identifier: MIT
// Long polls: they wake when there is something, give up in time, and claim nothing for a caller
// who has gone.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';

const scale = Number(process.env.DIBS_TEST_SCALE ?? 1);

const claim = (h, worker, more = {}, request = {}) =>
  h.post('/api/tasks/claim', { worker_id: worker, wait_ms: 60_000, ...more }, request);

const parked = async (h) => {
  const found = /queue="parked"\} (\d+)/.exec((await h.get('/metrics')).text);
  return Number(found?.[1] ?? -1);
};

const waits = (h, count) => until(`${count} wait`, async () => await parked(h) === count);

test('a worker that waits is given the task that arrives', async (t) => {
  const h = await house(t);
  const waiting = claim(h, 'w');
  await waits(h, 1);
  const id = await h.task();
  const { status, json } = await waiting;
  assert.equal(status, 200);
  assert.equal(String(json.task.id), id);
  assert.equal(await parked(h), 0);
});

test('a task that is released, expired, unblocked or due wakes those who wait', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s', 'defaultTTL = 30m'] });
  await h.session('s');
  const id = await h.task();
  const other = await h.task({ dependsOn: [id] });
  const held = () => h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 's', ttlMs: 1000 });

  await held();
  const first = claim(h, 'released');
  await waits(h, 1);
  await h.ok('POST', `/api/tasks/${id}/release`, { sessionId: 's' });
  assert.equal(String((await first).json.task.id), id);
  await h.ok('POST', `/api/tasks/${id}/release`, { sessionId: 'released' });

  await held();
  const second = claim(h, 'expired');
  assert.equal(String((await second).json.task.id), id, 'one second later the lease has ended');

  const third = claim(h, 'unblocked');
  await waits(h, 1);
  await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 'expired' });
  assert.equal(String((await third).json.task.id), other);

  const due = await h.task({ runAfter: new Date(Date.now() + 300).toISOString() });
  const fourth = await claim(h, 'due');
  assert.equal(String(fourth.json.task.id), due);
});

test('one who waits in vain is told so when its time is over, not before', async (t) => {
  const h = await house(t);
  const began = performance.now();
  const { status, json } = await claim(h, 'w', { wait_ms: 300, task_types: ['x'] });
  assert.ok(performance.now() - began >= 299);
  assert.equal(status, 404);
  assert.deepEqual(json.filters, { task_types: ['x'] });
});

test('whoever came first is served first, each with a task of its own', async (t) => {
  const h = await house(t);
  const order = [];
  const waiting = [];
  for (let i = 0; i < 10; i++) {
    waiting.push(claim(h, `w${i}`).then(({ json }) => { order.push([i, String(json.task.id)]); }));
    await waits(h, i + 1);
  }
  for (let i = 0; i < 10; i++) await h.task({ id: `t${i}` });
  await Promise.all(waiting);
  assert.deepEqual(order, Array.from({ length: 10 }, (_, i) => [i, `t${i}`]));
});

test('those who look for something else are passed over', async (t) => {
  const h = await house(t);
  const other = claim(h, 'other', { task_types: ['b'], wait_ms: 60_000 });
  await waits(h, 1);
  const mine = claim(h, 'mine', { task_types: ['a'] });
  await waits(h, 2);
  await h.task({ id: 'a1', type: 'a' });
  assert.equal((await mine).json.task.id, 'a1');
  await h.task({ id: 'b1', type: 'b' });
  assert.equal((await other).json.task.id, 'b1');
});

test('nothing is claimed for a caller that has hung up', async (t) => {
  const h = await house(t);
  const gone = new AbortController();
  const waiting = claim(h, 'gone', {}, { signal: gone.signal, agent: false });
  await waits(h, 1);
  gone.abort();
  await assert.rejects(waiting);
  await waits(h, 0);
  const id = await h.task();
  const { task } = (await h.get(`/api/tasks/${id}`)).json;
  assert.deepEqual([task.status, task.attempts], ['open', 0]);
});

test('one who goes at the moment of the grant: claimed once, told or given back', async (t) => {
  const h = await house(t);
  const rounds = Math.ceil(60 * scale);
  for (let i = 0; i < rounds; i++) {
    const gone = new AbortController();
    const waiting = claim(h, `w${i}`, {}, { signal: gone.signal, agent: false });
    await waits(h, 1);
    const made = h.task({ id: `t${i}` });
    // before, at and after the grant, as it comes
    if (i % 3 === 0) gone.abort();
    else if (i % 3 === 1) setImmediate(() => gone.abort());
    else made.then(() => gone.abort());
    await Promise.allSettled([waiting, made]);
    await waits(h, 0);
    // whoever asks next gets it at once, unless the answer had left before the caller did
    const { json } = await claim(h, 'next', { wait_ms: 0 });
    const { task } = (await h.get(`/api/tasks/t${i}`)).json;
    const holder = task.claim?.sessionId ?? json.task?.worker_id;
    assert.ok(['next', `w${i}`].includes(holder), `t${i} is held by ${holder}`);
    await h.ok('POST', `/api/tasks/t${i}/cancel`, {});
  }
});

test('a caller that hung up while the daemon could not look is given nothing', async (t) => {
  const h = await house(t);
  await h.session('w');
  h.daemon.kill('SIGSTOP');
  const body = JSON.stringify({ worker_id: 'w', wait_ms: 5000 });
  const gone = net.connect(h.port, '127.0.0.1');
  await once(gone, 'connect');
  gone.write('POST /api/tasks/claim HTTP/1.1\r\nHost: localhost\r\n' +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  gone.destroy();
  await once(gone, 'close');
  const made = h.task({ id: 'free' });
  h.daemon.kill('SIGCONT');
  await made;
  await waits(h, 0);
  const { task } = (await h.get('/api/tasks/free')).json;
  assert.equal(task.status, 'open');
});

test('a lock is handed over to those who wait, in the order in which they came', async (t) => {
  const h = await house(t);
  for (const s of ['a', 'b', 'c', 'd']) await h.session(s);
  const take = (s, more = {}, request = {}) =>
    h.post('/api/locks', { resource: 'deploy', sessionId: s, waitMs: 60_000, ...more }, request);
  assert.equal((await take('a')).status, 200);
  const second = take('b');
  await waits(h, 1);
  const gone = new AbortController();
  const third = take('c', {}, { signal: gone.signal, agent: false });
  await waits(h, 2);
  const fourth = take('d');
  await waits(h, 3);
  gone.abort();
  await assert.rejects(third);
  await waits(h, 2);
  const free = (s) => h.ok('DELETE', '/api/locks', { resource: 'deploy', sessionId: s });
  await free('a');
  assert.equal((await second).json.lock.sessionId, 'b');
  await free('b');
  assert.equal((await fourth).json.lock.sessionId, 'd', 'c has gone and is passed over');
  assert.equal((await take('a', { waitMs: 100 })).json.error, 'LOCK_HELD');
});

test('a session that waits counts as heard, and what it holds stays with it', async (t) => {
  const h = await house(t, { config: ['staleThreshold = 400ms', 'orphanThreshold = 1s',
    'cleanupInterval = 100ms'] });
  await h.ok('POST', '/api/agents', { id: 'amy', maxTasks: 2 });
  for (const s of ['w', 'l', 'idle']) await h.session(s);
  await h.task({ id: 'mine' });
  await h.ok('GET', '/api/poll?agentId=amy&claim=true');
  const before = (await h.get('/api/tasks/mine')).json.task.claim;
  await h.ok('POST', '/api/locks', { resource: 'r', sessionId: 'amy' });
  const waitMs = 60_000;
  const gone = new AbortController();
  const request = { signal: gone.signal, agent: false };
  const waiting = [
    h.get(`/api/poll?agentId=amy&wait=${waitMs}&claim=true`, request),
    claim(h, 'w', { task_types: ['none'] }, request),
    h.post('/api/locks', { resource: 'r', sessionId: 'l', waitMs }, request),
  ].map((answer) => answer.catch(() => {}));
  await waits(h, 3);
  const began = performance.now();
  const state = async (id) => (await h.get(`/api/sessions/${id}`)).json.session;
  await until('who does not wait is over', async () => (await state('idle')).status === 'ended');
  await until('two thresholds have passed', () => performance.now() - began >= 2000);
  for (const id of ['amy', 'w', 'l']) {
    const { status, incarnation } = await state(id);
    assert.deepEqual([id, status, incarnation], [id, 'active', 1]);
  }
  const { claim: after } = (await h.get('/api/tasks/mine')).json.task;
  assert.deepEqual([after.token, after.expiresAt], [before.token, before.expiresAt]);
  assert.equal(await parked(h), 3);
  gone.abort();
  await Promise.all(waiting);
});
