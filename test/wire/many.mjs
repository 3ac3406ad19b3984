// SPDX-License-Identifier: MIT
// test-timeout: 240
// test-parallel: no
// Very many connections: those that do nothing, those that listen, those that send a byte now and
// then or never read what they asked for. They cost little and harm nobody who works.
// DIBS_TEST_SCALE=5 takes 10,000 idle ones and 1,000 that listen.
import assert from 'node:assert/strict';
import test from 'node:test';

import { Client, percentile } from './lib/client.mjs';
import { eventually } from './lib/clock.mjs';
import { crowd, filesMax, footprint, Line } from './lib/crowd.mjs';
import { house } from './lib/daemon.mjs';

const SCALE = Number(process.env.DIBS_TEST_SCALE ?? 1);
const IS_SLOW = process.env.DIBS_SANITIZED === '1';
const IDLE = Math.min(10_000, Math.max(200, Math.round(2000 * SCALE)));
const LISTENERS = IDLE / 10;
const MEGABYTES_MAX = 100;
const ANSWERS = IS_SLOW ? 40 : 400; // that each who does not read asks for
const SOON_MS = IS_SLOW ? 10_000 : 1000;

const asks = (path, more = '') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;

async function makeTasks(client, count, more = {}) {
  for (let i = 0; i < count; i += 500) {
    const some = Array.from({ length: Math.min(500, count - i) }, () =>
      ({ title: 'x', maxAttempts: 0, ...more }));
    assert.equal((await client.post('/api/tasks', some)).status, 201);
  }
}

/** Workers that claim and complete until nothing is left; how long each request took. */
async function work(t, h, workers, count) {
  const took = [];
  const timed = async (client, path, body) => {
    const began = performance.now();
    const answer = await client.post(path, body);
    took.push(performance.now() - began);
    return answer;
  };
  let done = 0;
  await Promise.all(Array.from({ length: workers }, async (_, i) => {
    const client = new Client(h);
    t.after(() => client.drop());
    for (;;) {
      const { status, json, text } = await timed(client, '/api/tasks/claim',
        { worker_id: `w${i}` });
      if (status === 404) break;
      assert.equal(status, 200, text);
      const { id, token } = json.task;
      const end = await timed(client, `/api/tasks/${id}/complete`, { sessionId: `w${i}`, token });
      assert.equal(end.status, 200, end.text);
      done++;
    }
    client.drop();
  }));
  assert.equal(done, count);
  return took;
}

const figures = (took) => `p50 ${percentile(took, 0.5).toFixed(1)} ms, `
  + `p99 ${percentile(took, 0.99).toFixed(1)} ms`;

test(`${IDLE} idle connections, ${LISTENERS} that listen: small, and claims go on`, async (t) => {
  if (filesMax() < IDLE + LISTENERS + 600) return t.skip(`only ${filesMax()} files may be open`);
  const h = await house(t, { config: ['expiringThreshold = 0'] });
  const client = new Client(h);
  t.after(() => client.drop());
  const tasks = 300;
  await makeTasks(client, tasks);
  const before = footprint(h);

  const idle = await crowd(h, IDLE, asks('/healthz'), ({ tail }) => tail.endsWith('}'));
  const listening = await crowd(h, LISTENERS, asks('/api/events', 'Accept: text/event-stream\r\n'),
    ({ tail }) => tail.endsWith('\n\n'));
  t.after(() => [...idle, ...listening].forEach((line) => line.close()));
  const full = footprint(h);
  assert.ok(full.files >= before.files + IDLE + LISTENERS);

  const took = await work(t, h, 16, tasks);
  const { json: { last } } = await client.get('/api/events?limit=1');
  await eventually('each has heard all', () =>
    listening.every(({ tail, isOver }) => !isOver && tail.includes(`id: ${last}\n`)));
  const busy = footprint(h);
  assert.ok(idle.every(({ isOver }) => !isOver), 'those that idle are left in peace');

  for (const line of [...idle, ...listening]) line.close();
  await eventually('all is closed again', () => footprint(h).files <= before.files);
  t.diagnostic(`${IDLE} idle and ${LISTENERS} listening: ${before.megabytes.toFixed(1)} MB before, `
    + `${full.megabytes.toFixed(1)} MB with them, ${busy.megabytes.toFixed(1)} MB after work, `
    + `${footprint(h).megabytes.toFixed(1)} MB without them; requests ${figures(took)}`);
  if (!IS_SLOW) assert.ok(Math.max(full.megabytes, busy.megabytes) <= MEGABYTES_MAX);
  const stopped = await h.stop();
  assert.equal(stopped.code, 0, stopped.err);
});

/** Sends a text byte by byte, one each second, until it is hung up on. */
function trickle(t, h, text) {
  const line = new Line(h);
  let at = 0;
  line.began = performance.now();
  line.socket.on('close', () => { line.lasted = performance.now() - line.began; });
  const timer = setInterval(() => {
    if (!line.isOver) line.socket.write(text[at++ % text.length]);
  }, 1000);
  t.after(() => {
    clearInterval(timer);
    line.close();
  });
  return line;
}

test('200 that send a byte a second are hung up on, and 16 that work do not notice', async (t) => {
  const h = await house(t, { config: ['expiringThreshold = 0'] });
  const client = new Client(h);
  t.after(() => client.drop());
  const tasks = Math.round(Math.max(500, 4000 * Math.min(SCALE, 1)));
  await makeTasks(client, tasks);
  const before = footprint(h);
  const post = 'POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    + 'Content-Length: 60\r\n\r\n';
  const slow = Array.from({ length: 200 }, (_, i) => {
    const line = trickle(t, h, i % 2 ? 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ' : ' ');
    line.socket.write(i % 2 ? 'G' : post);
    return line;
  });
  const took = await work(t, h, 16, tasks);
  await eventually('the slow ones are hung up on', () => slow.every(({ isOver }) => isOver));
  for (const { lasted, tail } of slow) {
    assert.ok(lasted >= 9900, `hung up on after ${lasted} ms`);
    assert.match(tail, /^HTTP\/1\.1 408 /);
  }
  await eventually('all is closed again', () => footprint(h).files <= before.files);
  t.diagnostic(`requests ${figures(took)}; the slow ones lasted up to `
    + `${(Math.max(...slow.map(({ lasted }) => lasted)) / 1000).toFixed(1)} s`);
  assert.ok(percentile(took, 0.99) < SOON_MS);
});

test('20 that ask for much and read nothing cost little, and nobody notices', async (t) => {
  const h = await house(t, { config: ['expiringThreshold = 0'] });
  const client = new Client(h);
  t.after(() => client.drop());
  const tasks = Math.round(Math.max(500, 4000 * Math.min(SCALE, 1)));
  await makeTasks(client, 1000, { description: 'x'.repeat(1000), project: 'big' });
  await makeTasks(client, tasks);
  const { text } = await client.get('/api/tasks?project=big&limit=1000');
  const before = footprint(h);
  const lines = Array.from({ length: 20 }, () => {
    const line = new Line(h, asks('/api/tasks?project=big&limit=1000').repeat(ANSWERS));
    line.socket.pause();
    return line;
  });
  t.after(() => lines.forEach((line) => line.close()));
  const took = await work(t, h, 16, tasks);
  const during = footprint(h);
  t.diagnostic(`${20 * ANSWERS} answers of ${(text.length / 1e6).toFixed(1)} MB asked for: `
    + `${before.megabytes.toFixed(0)} MB before, ${during.megabytes.toFixed(0)} MB with them; `
    + `requests ${figures(took)}`);
  if (!IS_SLOW) assert.ok(during.megabytes < before.megabytes + 20 * 3 * text.length / 1e6);
  lines[0].socket.resume();
  await eventually('one that reads after all gets the rest', () =>
    lines[0].received >= ANSWERS * text.length, 60_000);
});
