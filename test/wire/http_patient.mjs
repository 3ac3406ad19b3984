// SPDX-License-Identifier: MIT
// Callers that ask far ahead: they get every answer, in order, for as long as they take them; and
// cost little when they do not.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';
import { allAnswers, bytesOf, Caller } from './lib/raw.mjs';

/** A caller that asks and does not look at what comes. */
async function deaf(t, h, bytes) {
  const c = new Caller(t, h, { paused: true });
  await c.connected;
  c.socket.pause();
  c.socket.write(bytes);
  return c;
}

test('who takes its answers late gets all of them, in order', async (t) => {
  const h = await house(t);
  await h.task({ id: 'large', description: 'd'.repeat(60_000) });
  const count = 500; // 15 MB of answers
  const asked = Array.from({ length: count }, (_, i) =>
    bytesOf('GET', i % 2 === 0 ? '/api/tasks/large' : `/n${i}`));
  const end = bytesOf('GET', '/end', { headers: ['Connection: close'] });
  const c = await deaf(t, h, asked.join('') + end);
  for (let i = 0; i < 20; i++) assert.equal((await h.get('/healthz')).status, 200);
  c.socket.on('data', (part) => c.parts.push(part)).resume();
  await c.closed;
  const answers = allAnswers(c.text);
  assert.equal(answers.length, count + 1);
  for (let i = 1; i < count; i += 2) assert.match(answers[i].body, new RegExp(`/n${i}'`));
});

test('who takes no answers is not read from, and costs little', async (t) => {
  const h = await house(t);
  const large = { title: 'x', description: 'x'.repeat(4000) };
  await h.ok('POST', '/api/tasks', Array.from({ length: 200 }, () => large));
  const memory = async () =>
    Number(/^process_resident_memory_bytes (\S+)/m.exec((await h.get('/metrics')).text)[1]);
  const before = await memory();
  const callers = [];
  for (let i = 0; i < 10; i++) { // 16 GB of answers, never read
    callers.push(await deaf(t, h, bytesOf('GET', '/api/tasks?limit=200').repeat(2000)));
  }
  for (let i = 0; i < 50; i++) assert.equal((await h.get('/api/tasks?limit=1')).status, 200);
  const grown = await memory() - before;
  for (const c of callers) c.socket.destroy();
  const most = process.env.DIBS_SANITIZED === '1' ? 500e6 : 50e6;
  assert.ok(grown < most, `${grown} bytes more`);
});
