// SPDX-License-Identifier: MIT
// Idempotency-Key: a request that may have got lost is sent again without doing anything twice.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';

const under = (key) => ({ headers: { 'Idempotency-Key': key } });

const count = async (h) => (await h.ok('GET', '/api/tasks')).tasks.length;

test('a repeat gives the same bytes and the same token, and does nothing again', async (t) => {
  const h = await house(t);
  await h.session('s');
  const first = await h.post('/api/tasks', { title: 'x' }, under('make'));
  const second = await h.post('/api/tasks', { title: 'x' }, under('make'));
  assert.deepEqual([first.status, second.status, second.text], [201, 201, first.text]);
  assert.equal(await count(h), 1);
  const { id } = first.json.task;
  const claimed = await h.post(`/api/tasks/${id}/claim`, { sessionId: 's' }, under('claim'));
  const again = await h.post(`/api/tasks/${id}/claim`, { sessionId: 's' }, under('claim'));
  assert.equal(again.text, claimed.text);
  const { task } = await h.ok('GET', `/api/tasks/${id}`);
  assert.deepEqual([task.attempts, task.claim.token, task.claim.heartbeatCount],
    [1, claimed.json.claim.token, 0]);
});

test('it is remembered across kill -9 and restart', async (t) => {
  const h = await house(t);
  await h.task({ id: 'a' });
  await h.task({ id: 'b' });
  const pull = () => h.post('/api/tasks/claim', { worker_id: 'w' }, under('pull'));
  const first = await pull();
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL']) {
    await h.stop(signal);
    await h.start();
    assert.equal((await pull()).text, first.text);
  }
  assert.equal((await h.ok('GET', '/api/tasks/in-flight')).summary.total, 1);
});

test('the same key for another request is refused and does nothing', async (t) => {
  const h = await house(t);
  const first = { title: 'x', params: { a: 1, b: 2 } };
  const { task } = await h.ok('POST', '/api/tasks', first, under('k'));
  for (const [method, path, body] of [
    ['POST', '/api/tasks', { title: 'y', params: { a: 1, b: 2 } }],
    ['POST', '/api/tasks', { title: 'x', params: { a: 1, b: 3 } }],
    ['POST', '/api/tasks', [{ title: 'x', params: { a: 1, b: 2 } }]],
    ['POST', '/api/sessions', { id: 's' }],
    ['PATCH', `/api/tasks/${task.id}`, { title: 'x' }],
    ['POST', `/api/tasks/${task.id}/cancel`, {}]]) {
    const answer = await h.request(method, path, { body, ...under('k') });
    assert.deepEqual([answer.status, answer.json.error], [422, 'IDEMPOTENCY_KEY_REUSED'], path);
  }
  const { tasks } = await h.ok('GET', '/api/tasks');
  assert.deepEqual(tasks, [task]);
});

test('the body is compared as JSON: other blanks, order and escapes are the same', async (t) => {
  const h = await house(t);
  const first =
    await h.post('/api/tasks', '{"title":"\u00fcx","params":{"a":1,"b":[1,2]}}', under('k'));
  const second = await h.post(
    '/api/tasks', ' {"params" : {"b":[1, 2],"a":1},\n"title":"\\u00fc\\u0078"}', under('k'));
  assert.deepEqual([first.status, second.text], [201, first.text]);
});

test('a refusal is not remembered: the next try may do better', async (t) => {
  const h = await house(t);
  await h.session('s');
  const ask = () => h.post('/api/tasks/t/claim', { sessionId: 's' }, under('k'));
  assert.equal((await ask()).json.error, 'TASK_NOT_FOUND');
  await h.task({ id: 't' });
  const { text } = await ask();
  assert.match(text, /"token":1,/);
  assert.equal((await ask()).text, text);
});

test('nothing is waited for under a key', async (t) => {
  const h = await house(t);
  await h.session('s');
  for (const [path, body, field] of [
    ['/api/tasks/claim', { worker_id: 'w', wait_ms: 1000 }, 'wait_ms'],
    ['/api/locks', { resource: 'r', sessionId: 's', waitMs: 1000 }, 'waitMs']]) {
    const answer = await h.post(path, body, under('k'));
    assert.deepEqual(
      [answer.status, answer.json.error, answer.json.field], [400, 'INVALID_REQUEST', field]);
    assert.ok((await h.post(path, { ...body, [field]: 0 }, under('k'))).status !== 400);
  }
});

test('a key is 1 to 256 bytes; one that is longer, empty or sent twice is refused', async (t) => {
  const h = await house(t);
  assert.equal((await h.post('/api/tasks', { title: 'x' }, under('k'.repeat(256)))).status, 201);
  for (const key of ['k'.repeat(257), '']) {
    const answer = await h.post('/api/tasks', { title: 'x' }, under(key));
    assert.deepEqual([answer.status, answer.json.error], [400, 'INVALID_REQUEST'], key);
  }
  const twice =
    'POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n' +
    'Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{"title":"x"}';
  assert.match(await h.raw(twice), /^HTTP\/1\.1 400 /);
  assert.equal(await count(h), 1);
});

test('the answer that makes an API key is not stored: no key for it', async (t) => {
  const h = await house(t);
  const answer =
    await h.post('/api/keys', { name: 'n', role: 'read' }, { socket: true, ...under('k') });
  assert.deepEqual([answer.status, answer.json.field], [400, 'Idempotency-Key']);
  assert.deepEqual((await h.ok('GET', '/api/keys', undefined, { socket: true })).keys, []);
});

test('a hundred repeats at once do it once', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/tasks', Array.from({ length: 100 }, () => ({ title: 'x' })));
  const answers = await Promise.all(Array.from({ length: 100 }, () =>
    h.post('/api/tasks/claim', { worker_id: 'w', count: 2 }, under('k'))));
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal(answers[0].json.tasks.length, 2);
  assert.equal((await h.ok('GET', '/api/tasks/in-flight')).summary.total, 2);
});

test('a report that got lost is sent again with claimNext: the same next task', async (t) => {
  const h = await house(t);
  for (const id of ['a', 'b', 'c']) await h.task({ id });
  await h.ok('POST', '/api/tasks/claim', { worker_id: 'w' });
  const report = () =>
    h.post('/api/tasks/a/complete', { sessionId: 'w', claimNext: {} }, under('done a'));
  const first = await report();
  assert.equal(first.json.next.task.id, 'b');
  await h.stop('SIGKILL');
  await h.start();
  assert.equal((await report()).text, first.text);
  assert.equal((await h.ok('GET', '/api/tasks/c')).task.status, 'open');
});

test('reads take no notice of a key', async (t) => {
  const h = await house(t);
  assert.equal((await h.get('/api/tasks', under('k'))).json.tasks.length, 0);
  await h.task();
  assert.equal((await h.get('/api/tasks', under('k'))).json.tasks.length, 1);
});
