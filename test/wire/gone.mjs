// SPDX-License-Identifier: MIT
// Callers that hang up, keys that are revoked, and those who wait while all of it happens. The
// daemon is stopped (SIGSTOP) while bytes are laid before it, so that it finds them all at once.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';

const bytesOf = (method, path, body = {}) => {
  const text = JSON.stringify(body);
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};

async function connect(t, h) {
  const socket = net.connect(h.port, '127.0.0.1').on('error', () => {});
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Sends a request and hangs up (end: FIN, reset: RST) while the daemon does not look. */
async function askAndGo(t, h, bytes, how) {
  const socket = await connect(t, h);
  h.daemon.kill('SIGSTOP');
  await new Promise((sent) => socket.write(bytes, sent));
  if (how === 'reset') socket.resetAndDestroy();
  else socket.destroy();
  await once(socket, 'close');
  h.daemon.kill('SIGCONT');
}

const parked = async (h) =>
  Number(/queue="parked"\} (\d+)/.exec((await h.get('/metrics')).text)[1]);
const task = async (h, id) => (await h.get(`/api/tasks/${id}`)).json.task;

test('a task that comes in the same batch as the one who waits for it wakes him', async (t) => {
  const h = await house(t);
  const wait = (id, type) => bytesOf('POST', '/api/tasks/claim',
    { worker_id: id, task_types: [type], wait_ms: 60_000 });
  const other = await connect(t, h);
  other.write(wait('k', 'other'));
  await until('one waits', async () => await parked(h) === 1);
  for (let i = 0; i < 10; i++) {
    const worker = await connect(t, h);
    const maker = await connect(t, h);
    h.daemon.kill('SIGSTOP');
    await new Promise((sent) => worker.write(wait(`j${i}`, 'mine'), sent));
    await new Promise((sent) => maker.write(
      bytesOf('POST', '/api/tasks', { title: 'x', type: 'mine' }), sent));
    h.daemon.kill('SIGCONT');
    const [answer] = await once(worker.setEncoding('utf8'), 'data');
    assert.match(answer, /^HTTP\/1\.1 200 /);
    worker.destroy();
    maker.destroy();
  }
});

for (const how of ['end', 'reset']) {
  test(`a report is taken, what it asked for next is not: ${how}`, async (t) => {
    const h = await house(t);
    await h.session('s');
    for (const id of ['a', 'b']) await h.task({ id });
    await h.ok('POST', '/api/tasks/a/claim', { sessionId: 's' });
    await askAndGo(t, h, bytesOf('POST', '/api/tasks/a/complete',
      { sessionId: 's', claimNext: {} }), how);
    await until('a is completed', async () => (await task(h, 'a')).status === 'completed');
    await until('b is free', async () => (await task(h, 'b')).status === 'open');
    assert.equal((await task(h, 'b')).attempts, 0);
  });

  test(`a lock taken by one who has gone is free: ${how}`, async (t) => {
    const h = await house(t);
    await h.session('gone');
    await h.session('here');
    await askAndGo(t, h, bytesOf('POST', '/api/locks',
      { resource: 'r', sessionId: 'gone', waitMs: 0 }), how);
    await until('it can be taken', async () =>
      (await h.post('/api/locks', { resource: 'r', sessionId: 'here' })).status === 200);
  });
}

test('a waiter that has gone before it was looked at keeps no ticket for a lock', async (t) => {
  const h = await house(t);
  for (const s of ['holder', 'gone', 'next']) await h.session(s);
  const take = (s, waitMs) => h.post('/api/locks', { resource: 'r', sessionId: s, waitMs });
  await take('holder', 0);
  await askAndGo(t, h, bytesOf('POST', '/api/locks',
    { resource: 'r', sessionId: 'gone', waitMs: 600_000 }), 'end');
  await until('nobody waits', async () => await parked(h) === 0);
  await h.ok('DELETE', '/api/locks', { resource: 'r', sessionId: 'holder' });
  await until('the next one gets it', async () => (await take('next', 0)).status === 200);
});

test('one who has said his last does not wait', async (t) => {
  const h = await house(t);
  const socket = net.connect({ port: h.port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  socket.end(bytesOf('GET', '/api/tasks').replace(/Content-Length: \d+/, 'Content-Length: 2') +
    bytesOf('POST', '/api/tasks/claim', { worker_id: 'w', wait_ms: 600_000 }));
  socket.resume();
  await once(socket, 'end');
  assert.equal(await parked(h), 0);
});

test('a new key is good when it is told, and a revoked one ends what waits under it', async (t) => {
  const h = await house(t);
  const add = (name) => h.ok('POST', '/api/keys', { name, role: 'worker', ratePerMinute: 0 },
    { socket: true });
  const using = (key) => ({ headers: { Authorization: `Bearer ${key}` }, agent: false });
  for (let i = 0; i < 30; i++) {
    const { apiKey } = await add(`n${i}`);
    assert.equal((await h.get('/api/tasks', using(apiKey))).status, 200, `key ${i}`);
  }
  const { key, apiKey } = await add('last');
  const gone = assert.rejects(
    h.post('/api/tasks/claim', { worker_id: 'w', wait_ms: 600_000 }, using(apiKey)));
  const waiting = async () => /queue="parked"\} 1/.test(
    (await h.get('/metrics', { socket: true })).text);
  await until('it waits', waiting);
  await h.ok('DELETE', `/api/keys/${key.id}`, undefined, { socket: true });
  assert.equal((await h.get('/api/tasks', using(apiKey))).status, 401, 'at once');
  await gone;
  await until('nobody waits', async () => !await waiting());
  const id = (await h.ok('POST', '/api/tasks', { title: 'x' }, { socket: true })).task.id;
  const { task: left } = (await h.get(`/api/tasks/${id}`, { socket: true })).json;
  assert.equal(left.status, 'open');
});
