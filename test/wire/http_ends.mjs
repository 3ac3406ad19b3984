// SPDX-License-Identifier: MIT
// Ends: callers that stop talking half-way, hang up, or break off at any byte. Who has asked is
// answered, who has not is given nothing, and no descriptor is left behind.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { allAnswers, bytesOf, Caller } from './lib/raw.mjs';

const post = (id) => bytesOf('POST', '/api/tasks', { body: JSON.stringify({ id, title: 'x' }) });
const PULL = bytesOf('POST', '/api/tasks/claim', { body: '{"worker_id":"w","wait_ms":60000}' });

async function caller(t, h, more) {
  const c = new Caller(t, h, more);
  await c.connected;
  return c;
}

const files = (h) => readdirSync(`/proc/${h.daemon.child.pid}/fd`).length;

/** The number of descriptors at rest; afterwards, that it is the same again. */
async function counted(h) {
  await h.get('/api/tasks'); // the connection of our own
  const before = files(h);
  return () => until(`${before} descriptors are open, as before`, () => files(h) === before);
}

const parked = (h, count) => until(`${count} wait`,
  async () =>
    new RegExp(`queue="parked"\\} ${count}$`, 'm').test((await h.get('/metrics')).text));
const tasks = async (h) => (await h.ok('GET', '/api/tasks?limit=1000')).tasks.map(({ id }) => id);

test('a caller that has said its last still gets its answer', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  for (const socket of [false, true]) {
    for (const [bytes, status] of [[bytesOf('GET', '/healthz'), 200],
           [bytesOf('GET', '/api/tasks'), 200], [bytesOf('GET', '/'), 200],
           [bytesOf('GET', '/metrics'), 200], [post(`t${socket}`), 201],
           [bytesOf('GET', '/nosuch'), 404], ['nonsense\r\n\r\n', 400]]) {
      const c = await caller(t, h, { socket, halfOpen: true });
      c.socket.end(bytes);
      await c.closed;
      assert.deepEqual(allAnswers(c.text).map((answer) => answer.status), [status], bytes);
    }
  }
  assert.deepEqual(await tasks(h), ['tfalse', 'ttrue']);
  await back();
});

test('a caller that stops half-way is hung up on, and nothing is done', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  const bytes = post('half');
  for (let at = 0; at < bytes.length; at++) {
    const c = await caller(t, h, { halfOpen: true });
    c.socket.end(bytes.slice(0, at));
    await c.closed;
    assert.equal(c.text, '', `after ${at} bytes`);
  }
  assert.deepEqual(await tasks(h), []);
  await back();
});

test('a caller that breaks off at any byte of its request does no harm', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  const bytes = post('broken');
  for (let at = 0; at < bytes.length; at++) {
    const c = await caller(t, h);
    if (at > 0) await c.send(bytes.slice(0, at));
    await c.reset();
  }
  await back();
  assert.deepEqual(await tasks(h), []);
  assert.equal((await h.get('/readyz')).status, 200);
});

test('a caller that breaks off right behind its request: that is done once or not', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  for (let i = 0; i < 100; i++) {
    const c = await caller(t, h);
    await c.send(post(`t${i}`));
    await c.reset();
  }
  await back();
  assert.equal((await h.post('/api/tasks', { id: 'last', title: 'x' })).status, 201);
  const there = await tasks(h);
  assert.equal(new Set(there).size, there.length);
});

test('a caller that breaks off at any place of a long answer does no harm', async (t) => {
  const h = await house(t);
  const some = Array.from({ length: 20 }, () => ({ title: 'x', description: 'd'.repeat(40_000) }));
  for (let i = 0; i < 5; i++) await h.ok('POST', '/api/tasks', some);
  const back = await counted(h);
  for (const bytes of [1, 2, 100, 200, 201, 1000, 65_536, 100_000, 1_000_000, 3_000_000]) {
    const c = await caller(t, h);
    await c.send(bytesOf('GET', '/api/tasks'));
    await c.reaches(bytes);
    await c.reset();
  }
  await back();
});

test('a thousand connections that come and go leave nothing behind', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  for (let i = 0; i < 10; i++) {
    const some = Array.from({ length: 100 }, () => new Caller(t, h, { socket: i % 2 === 1 }));
    await Promise.all(some.map((c) => c.connected));
    for (const [n, c] of some.entries()) {
      if (n % 3 === 0 && i % 2 === 0) c.reset();
      else if (n % 3 === 1) c.socket.end();
      else c.socket.destroy();
    }
    await Promise.all(some.map((c) => c.closed));
  }
  await back();
  await until('nobody is counted',
    async () => /^dibs_connections 1$/m.test((await h.get('/metrics')).text));
});

test('who waits and breaks off, or follows events and breaks off, is forgotten', async (t) => {
  const h = await house(t);
  const back = await counted(h);
  const waiting = [];
  for (let i = 0; i < 20; i++) {
    const c = await caller(t, h);
    await c.send(i % 2 === 0 ? PULL : bytesOf('GET', '/api/events'));
    waiting.push(c);
  }
  await parked(h, 10);
  for (const c of waiting) await c.reset();
  await parked(h, 0);
  await back();
  const id = await h.task();
  assert.equal((await h.ok('GET', `/api/tasks/${id}`)).task.status, 'open');
});

test('nothing stays claimed for a caller that has said its last', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const c = await caller(t, h, { halfOpen: true });
  c.socket.end(PULL);
  await c.closed;
  await until('the task is free',
    async () => (await h.ok('GET', `/api/tasks/${id}`)).task.status === 'open');
});

test('what was answered is there, whatever became of the caller', async (t) => {
  const h = await house(t);
  for (let i = 0; i < 30; i++) {
    const c = await caller(t, h);
    await c.send(post(`t${i}`));
    assert.equal((await c.answer()).status, 201);
    await c.reset();
  }
  await h.stop('SIGKILL');
  await h.start();
  assert.equal((await tasks(h)).length, 30);
});

test('all that was asked before the last word is answered', async (t) => {
  const h = await house(t);
  for (const path of ['/healthz', '/api/tasks', '/', '/metrics']) {
    const c = await caller(t, h, { halfOpen: true });
    c.socket.end(bytesOf('GET', path).repeat(50));
    await c.closed;
    assert.equal(allAnswers(c.text).length, 50, path);
  }
  const c = await caller(t, h, { halfOpen: true });
  const whole = Array.from({ length: 50 }, (_, i) => post(`t${i}`)).join('');
  c.socket.end(whole + post('half').slice(0, -1));
  await c.closed;
  assert.equal(allAnswers(c.text).filter(({ status }) => status === 201).length, 50);
  assert.equal((await tasks(h)).length, 50);
});
