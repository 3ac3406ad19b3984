// SPDX-License-Identifier: MIT
// Who may do what over the wire: keys, roles, projects, sessions, rates, and what a browser is told
// that was led here by another page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { House, house, until } from './lib/daemon.mjs';

const ROLES = ['read', 'worker', 'admin'];
const SCOPES = { READER: 0, WORKER: 1, ADMIN: 2 };

/** Every operation, as ops.def has it. */
const operations = [...readFileSync(join(process.env.DIBS_SOURCE_ROOT ?? '.', 'src/api/ops.def'),
  'utf8').matchAll(/^OP\((\w+), (\w+), "([^"]+)", (\w+), (\w+),/gm)]
  .map(([, name, method, path, scope]) => ({ name, method, path, scope: SCOPES[scope] }));

/** Makes a key through the socket, as its owner would: {id, headers, apiKey}. */
async function key(h, role, more = {}) {
  const name = `${role} ${Math.random()}`;
  const { key: made, apiKey } = await h.ok('POST', '/api/keys',
    { name, role, ratePerMinute: 0, ...more }, { socket: true });
  const headers = { 'X-API-Key': apiKey };
  await until('the daemon knows the key',
    async () => (await h.get('/api/tasks', { headers })).status !== 401);
  return { id: made.id, apiKey, headers };
}

function send(h, op, headers) {
  const body = op.method === 'GET' ? undefined : {};
  return h.request(op.method, op.path.replace(':id', 'nosuch'),
    { body, headers: { Accept: 'application/json', ...headers } });
}

function assertRefused(answer, status, error) {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.json.success, false);
  assert.equal(answer.json.error, error);
  assert.match(answer.json.message, /\w+ \w+/);
}

test('every operation is open to the roles that ops.def names, and to no other', async (t) => {
  const h = await house(t);
  assert.ok(operations.length >= 40);
  const keys = [];
  for (const role of ROLES) keys.push(await key(h, role));
  for (const op of operations) {
    assertRefused(await send(h, op, {}), 401, 'UNAUTHORIZED');
    for (const [role, { headers }] of keys.entries()) {
      const answer = await send(h, op, headers);
      if (role < op.scope) assertRefused(answer, 403, 'FORBIDDEN');
      else assert.ok(![401, 403].includes(answer.status), `${op.name}: ${answer.text}`);
    }
  }
});

test('before there is a key nobody needs one; from the first on everybody on TCP', async (t) => {
  const h = await house(t);
  assert.equal((await h.get('/api/tasks')).status, 200);
  await key(h, 'read');
  const answer = await h.get('/api/tasks');
  assertRefused(answer, 401, 'UNAUTHORIZED');
  assert.equal(answer.headers['www-authenticate'], 'Bearer');
  assert.equal((await h.get('/api/tasks', { socket: true })).status, 200);
  assert.equal((await h.get('/healthz')).status, 200);
});

test('a key works as X-API-Key and as Bearer; what is wrong is 401 and never shown', async (t) => {
  const h = await house(t);
  const { apiKey } = await key(h, 'read');
  const wrong = apiKey.slice(0, -4) + (apiKey.endsWith('aaaa') ? 'bbbb' : 'aaaa');
  assert.equal((await h.get('/api/tasks',
    { headers: { Authorization: `Bearer ${apiKey}` } })).status, 200);
  const cases = [
    { 'X-API-Key': wrong }, { 'X-API-Key': 'x' }, { 'X-API-Key': '' },
    { Authorization: `Bearer ${wrong}` }, { Authorization: `Basic ${apiKey}` },
    { Authorization: apiKey }, { 'X-API-Key': apiKey, Authorization: `Bearer ${wrong}` },
  ];
  for (const headers of cases) {
    const answer = await h.get('/api/tasks', { headers });
    assertRefused(answer, 401, 'UNAUTHORIZED');
    assert.equal(answer.headers['www-authenticate'], 'Bearer');
    assert.ok(!answer.text.includes(apiKey.slice(-20)) && !answer.text.includes(wrong.slice(-20)));
  }
});

test('a revoked key is refused within a second, whoever revoked it', async (t) => {
  const h = await house(t);
  const admin = await key(h, 'admin');
  for (const revoke of [
    (id) => h.ok('DELETE', `/api/keys/${id}`, undefined, { socket: true }),
    (id) => h.ok('DELETE', `/api/keys/${id}`, undefined, { headers: admin.headers }),
    (id) => h.dibs('key', 'revoke', id),
  ]) {
    const { id, headers } = await key(h, 'worker');
    await revoke(id);
    const begun = Date.now();
    await until('the key is refused',
      async () => (await h.get('/api/tasks', { headers })).status === 401);
    assert.ok(Date.now() - begun < 1000);
  }
});

test('who reads events with a key that is revoked is hung up on', async (t) => {
  const h = await house(t);
  const { id, apiKey } = await key(h, 'read');
  let begun = false;
  const head = `GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${apiKey}\r\n\r\n`;
  const stream = h.raw(head,
    (text) => { begun = text.includes('200 OK'); return false; });
  await until('the stream has begun', () => begun);
  await h.ok('DELETE', `/api/keys/${id}`, undefined, { socket: true });
  await stream;
});

test('who waits with a key is given what comes, and acts under it', async (t) => {
  const h = await house(t);
  const { headers } = await key(h, 'worker');
  const other = await key(h, 'worker');
  const waiting = h.ok('POST', '/api/tasks/claim', { worker_id: 'w', wait_ms: 20_000 },
    { headers });
  await until('the worker is registered', async () =>
    (await h.get('/api/sessions/w', { headers })).status === 200);
  const { id } = (await h.ok('POST', '/api/tasks', { title: 'x' }, { headers })).task;
  assert.equal(String((await waiting).task.id), id);
  assertRefused(await h.post(`/api/tasks/${id}/complete`, { sessionId: 'w' },
    { headers: other.headers }), 403, 'FORBIDDEN');
  await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 'w' }, { headers });
});

test('a session belongs to the key that registered it', async (t) => {
  const h = await house(t);
  const ours = await key(h, 'worker');
  const others = await key(h, 'worker');
  const admin = await key(h, 'admin');
  const as = (who) => ({ headers: who.headers });
  await h.ok('POST', '/api/sessions', { id: 's' }, as(ours));
  const task = (await h.ok('POST', '/api/tasks', { title: 'a' }, as(ours))).task.id;
  const acts = [
    ['POST', `/api/tasks/${task}/claim`, { sessionId: 's' }],
    ['POST', `/api/tasks/${task}/claim/heartbeat`, { sessionId: 's' }],
    ['POST', `/api/tasks/${task}/progress`, { sessionId: 's' }],
    ['POST', '/api/tasks/claim', { worker_id: 's', project: 'empty' }],
    ['POST', '/api/locks', { resource: 'r', sessionId: 's' }],
    ['POST', '/api/locks/heartbeat', { resource: 'r', sessionId: 's' }],
    ['DELETE', '/api/locks', { resource: 'r', sessionId: 's' }],
    ['POST', '/api/sessions/s/heartbeat', {}],
    ['POST', '/api/sessions/s/resume', {}],
    ['POST', '/api/sessions', { id: 's' }],
    ['POST', `/api/tasks/${task}/complete`, { sessionId: 's', claimNext: {} }],
    ['DELETE', '/api/sessions/s', {}],
  ];
  for (const [method, path, body] of acts) {
    assertRefused(await h.request(method, path, { body, ...as(others) }), 403, 'FORBIDDEN');
    const answer = await h.request(method, path, { body, ...as(ours) });
    assert.ok(answer.status !== 403, `${path}: ${answer.text}`);
  }
  await h.ok('POST', '/api/sessions', { id: 's2' }, as(ours));
  await h.ok('POST', '/api/sessions/s2/heartbeat', {}, as(admin));
});

test('a key for one project sees and changes nothing else', async (t) => {
  const h = await house(t);
  const { headers } = await key(h, 'worker', { project: 'web' });
  const far = (await h.ok('POST', '/api/tasks', { title: 'far' }, { socket: true })).task.id;
  const near = (await h.ok('POST', '/api/tasks', { title: 'near' }, { headers })).task;
  assert.equal(near.project, 'web');
  assert.deepEqual((await h.ok('GET', '/api/tasks', undefined, { headers })).tasks
    .map((task) => task.title), ['near']);
  assertRefused(await h.get(`/api/tasks/${far}`, { headers }), 404, 'TASK_NOT_FOUND');
  assertRefused(await h.get('/api/tasks?project=default', { headers }), 403, 'FORBIDDEN');
  assertRefused(await h.get('/api/locks', { headers }), 403, 'FORBIDDEN');
  assertRefused(await h.get('/api/agents/scores', { headers }), 403, 'FORBIDDEN');
  const claimed = await h.ok('POST', '/api/tasks/claim', { worker_id: 'w', count: 9 }, { headers });
  assert.deepEqual(claimed.tasks.map((task) => String(task.id)), [near.id]);
  const events = await h.ok('GET', '/api/events', undefined,
    { headers: { ...headers, Accept: 'application/json' } });
  assert.ok(events.events.every((e) => e.project === 'web'));
});

test('a key is told its rate, and 429 with Retry-After when it is used up', async (t) => {
  const h = await house(t);
  const { headers } = await key(h, 'read', { ratePerMinute: 20 });
  const other = await key(h, 'read', { ratePerMinute: 20 });
  let answer = await h.get('/api/tasks', { headers });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['ratelimit-policy'], '"default";q=20;w=60');
  assert.match(answer.headers.ratelimit, /^"default";r=1\d;t=\d+$/);
  for (let i = 0; i < 25 && answer.status === 200; i++)
    answer = await h.get('/api/tasks', { headers });
  assertRefused(answer, 429, 'RATE_LIMITED');
  assert.match(answer.headers['retry-after'], /^[1-3]$/);
  assert.equal(answer.headers['ratelimit-policy'], '"default";q=20;w=60');
  assert.match(answer.headers.ratelimit, /^"default";r=0;t=\d+$/);
  assert.equal((await h.get('/api/tasks', { headers: other.headers })).status, 200);
  assert.equal((await h.get('/api/tasks', { socket: true })).status, 200);
});

test('the owner on the socket is not limited', async (t) => {
  const h = await house(t);
  for (let i = 0; i < 150; i++)
    assert.equal((await h.get('/api/tasks?limit=1', { socket: true })).status, 200);
});

test('a Host that is not ours is 421, a request by another page 403, no JSON 415', async (t) => {
  const h = await house(t, { args: ['--host', 'box.lan'] });
  const get = (headers) => h.get('/api/tasks', { headers });
  for (const host of ['evil.example', `evil.example:${h.port}`, 'localhost.',
    '127.0.0.1.evil.example'])
    assertRefused(await get({ Host: host }), 421, 'MISDIRECTED_REQUEST');
  for (const host of ['localhost', `LOCALHOST:${h.port}`, '127.0.0.1', '[::1]:7117', 'box.lan'])
    assert.equal((await get({ Host: host })).status, 200, host);
  assert.equal((await h.get('/healthz', { headers: { Host: 'evil.example' } })).status, 421);
  assert.equal((await h.get('/api/tasks',
    { headers: { Host: 'whatever' }, socket: true })).status, 200);

  const ours = `127.0.0.1:${h.port}`;
  assert.equal((await get({ Host: ours, Origin: `http://${ours}` })).status, 200);
  for (const headers of [{ Origin: 'http://evil.example' }, { Origin: 'null' },
    { Origin: `http://localhost:${h.port}` }, { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site' }]) {
    const answer = await get({ Host: ours, ...headers });
    assertRefused(answer, 403, 'FORBIDDEN');
    assert.equal(answer.headers['access-control-allow-origin'], undefined);
  }

  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])
    assertRefused(await h.post('/api/tasks', '{"title":"x"}',
      { headers: { 'Content-Type': type } }), 415, 'UNSUPPORTED_MEDIA_TYPE');
  assert.equal((await h.post('/api/tasks', '{"title":"x"}',
    { headers: { 'Content-Type': 'application/json; charset=utf-8' } })).status, 201);
  assert.equal((await h.ok('GET', '/api/tasks')).tasks.length, 1);
});

test('a key of another data folder opens nothing', async (t) => {
  const h = await house(t);
  const strange = await house(t);
  const { headers } = await key(strange, 'admin');
  await key(h, 'read');
  assertRefused(await h.get('/api/tasks', { headers }), 401, 'UNAUTHORIZED');
});

test('idempotency keys of two API keys do not meet', async (t) => {
  const h = await house(t);
  const one = await key(h, 'worker');
  const two = await key(h, 'worker');
  const make = async (who) => (await h.ok('POST', '/api/tasks', { title: 'x' },
    { headers: { ...who.headers, 'Idempotency-Key': 'same' } })).task.id;
  const first = await make(one);
  assert.equal(await make(one), first);
  assert.notEqual(await make(two), first);
});

test('no secret is in what the daemon prints, nor in its journal', async (t) => {
  const h = await house(t, { args: ['--log-requests'] });
  const { apiKey, headers, id } = await key(h, 'admin');
  const secret = apiKey.split('_')[2];
  await h.ok('POST', '/api/tasks', { title: 'x' }, { headers });
  await h.get('/api/tasks', { headers: { Authorization: `Bearer ${apiKey.slice(0, -1)}` } });
  const page = await h.ok('GET', '/api/events?types=key:added', undefined,
    { headers: { ...headers, Accept: 'application/json' } });
  assert.equal(page.events[0].data.keyId, id);
  assert.ok(!JSON.stringify(page).includes(secret));
  const { out, err } = await h.stop();
  assert.match(out, /"operation":"taskCreate"/);
  for (const part of [secret, secret.slice(0, 20), secret.slice(-20)])
    assert.ok(!out.includes(part) && !err.includes(part));
});

test('without a key nothing but loopback is listened on', async (t) => {
  const h = new House(t);
  await h.dibs('init');
  const refused = await h.dibs('serve', '--listen', '0.0.0.0:0');
  assert.notEqual(refused.code, 0);
  assert.match(refused.err, /dibs key add/);
  await h.dibs('key', 'add', 'first', '--role', 'read');
  await h.start('--listen', '0.0.0.0:0');
  assertRefused(await h.get('/api/tasks'), 401, 'UNAUTHORIZED');
});

test('a stream and the metrics tell the rate of the key as well', async (t) => {
  const h = await house(t);
  const { apiKey } = await h.ok('POST', '/api/keys', { name: 'k', role: 'read' }, { socket: true });
  const headers = { Authorization: `Bearer ${apiKey}` };
  const metrics = await h.get('/metrics', { headers });
  assert.match(metrics.headers['ratelimit-policy'], /q=100/);
  const head = await h.raw(`GET /api/events HTTP/1.1\r\nHost: localhost\r\n` +
    `Authorization: Bearer ${apiKey}\r\n\r\n`, (text) => text.includes('\r\n\r\n'));
  assert.match(head, /RateLimit: "default";r=9\d/);
});
