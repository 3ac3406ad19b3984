// SPDX-License-Identifier: MIT
// What holds for every operation alike: it is there, it is described, it refuses what it does not
// know, it can be repeated.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';
import { described, operationNames, visitAll, visits } from './lib/visits.mjs';

const OWNER = { socket: true };

/** A refusal in the form that all have. */
function assertRefused(answer, status, error, what = '') {
  assert.equal(answer.status, status, `${what}: ${answer.text}`);
  assert.equal(answer.json.success, false);
  assert.equal(answer.json.error, error);
  assert.match(answer.json.message, /\w+ \w+/);
}

/** One of each operation's requests, with paths that need nothing to be there. */
const firstOf = () => visits
  .filter(({ name }, i) => visits.findIndex((other) => other.name === name) === i)
  .map((visit) => ({ ...visit, path: visit.path.replace('KEY', 'k') }));

test('every operation is described, is asked for here, and succeeds', async (t) => {
  const h = await house(t);
  const seen = new Set();
  await visitAll(h, (visit, answer) => {
    assert.equal(answer.status, visit.status, `${visit.name}: ${answer.text}`);
    assert.equal(answer.json.success, true);
    assert.equal(answer.headers['content-type'], 'application/json');
    seen.add(visit.name);
  });
  assert.deepEqual([...seen].sort(), operationNames().sort());
  assert.deepEqual((await described(h)).map(({ name }) => name).sort(), operationNames().sort());
});

test('an answer has the members that its description promises, and no others', async (t) => {
  const h = await house(t);
  const operations = new Map((await described(h)).map((op) => [op.name, op]));
  const { components } = await h.ok('GET', '/api/openapi.json');
  const resolve = (schema) =>
    (schema.$ref ? components.schemas[schema.$ref.split('/').pop()] : schema);
  await visitAll(h, ({ name }, { status, json }) => {
    const { schema } = operations.get(name).responses[status].content['application/json'];
    const { required, properties } = resolve(schema);
    for (const member of required) assert.ok(member in json, `${name} answers without '${member}'`);
    for (const member of Object.keys(json)) assert.ok(member in properties, `${name}: '${member}'`);
  });
});

test('an unknown field is refused by name, by every operation that takes a body', async (t) => {
  const h = await house(t);
  for (const { name, method, path, body } of firstOf()) {
    const fields = { ...body, nosuchfield: 1 };
    const answer =
      await h.request(method, path, { body: fields, headers: { Accept: 'application/json' } });
    assertRefused(answer, 400, 'INVALID_REQUEST', name);
    assert.equal(answer.json.field, 'nosuchfield', name);
  }
});

test('an unknown query parameter is refused by name, by every operation', async (t) => {
  const h = await house(t);
  for (const { name, method, path, body } of firstOf()) {
    const headers = { Accept: 'application/json' };
    const mark = path.includes('?') ? '&' : '?';
    const answer = await h.request(method, `${path}${mark}nosuch=1`, { body, headers });
    assertRefused(answer, 400, 'INVALID_REQUEST', name);
    assert.equal(answer.json.field, 'nosuch', name);
    assert.match(answer.json.message, /query parameter 'nosuch'/, name);
  }
});

test('a method that a path does not take is 405, and Allow says which it takes', async (t) => {
  const h = await house(t);
  const operations = await described(h);
  for (const path of new Set(operations.map((op) => op.path))) {
    const taken = operations.filter((op) => op.path === path).map(({ method }) => method);
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      if (taken.includes(method)) continue;
      const answer = await h.request(method, path.replace('{id}', 'x'));
      assertRefused(answer, 405, 'METHOD_NOT_ALLOWED', `${method} ${path}`);
      assert.deepEqual(answer.headers.allow.split(', ').sort(), taken.sort());
      assert.equal(answer.json.allow, answer.headers.allow);
    }
  }
});

test('what is nowhere is 404, whatever the method', async (t) => {
  const h = await house(t);
  for (const path of ['/api', '/api/', '/api/nosuch', '/api/tasks/', '/api/tasks/x/nosuch',
         '/nosuch', '/api/tasks//claim', '/api//tasks', '/API/TASKS',
         '/api/tasks/x/claim/heartbeat/more', '/.git/config', '/..', '/../../etc/passwd',
         '/%2e%2e/%2e%2e/etc/passwd', '/web/index.html', '/index.html/']) {
    for (const method of ['GET', 'POST', 'DELETE']) {
      assertRefused(await h.request(method, path), 404, 'NOT_FOUND', `${method} ${path}`);
    }
  }
});

test('an id in the path that cannot be one is refused by name', async (t) => {
  const h = await house(t);
  for (const { name, method, path } of await described(h)) {
    if (!path.includes('{id}')) continue;
    for (const id of ['a%20b', 'a%2Fb', '%C3%BC', 'x'.repeat(129), '%00', 'a%0Ab', '%ff', '%']) {
      const answer = await h.request(method, path.replace('{id}', id));
      assertRefused(answer, 400, 'INVALID_REQUEST', `${name} ${id}`);
      assert.equal(answer.json.field, 'id');
    }
  }
});

test('a write whose body is no JSON object is refused, whatever it is', async (t) => {
  const h = await house(t);
  for (const { name, method, path } of firstOf()) {
    if (method === 'GET') continue;
    for (const body of ['"text"', '7', 'true', 'null', '[7]', '[[]]', '{', 'title=x']) {
      assertRefused(
        await h.request(method, path, { body }), 400, 'INVALID_REQUEST', `${name} ${body}`);
    }
  }
  assert.equal((await h.ok('GET', '/api/tasks')).tasks.length, 0);
});

test('a write must say that its body is JSON, and keep it below 1 MiB', async (t) => {
  const h = await house(t);
  for (const { name, method, path, body } of firstOf()) {
    if (method === 'GET') continue;
    const more = { body: JSON.stringify(body ?? {}), headers: { 'Content-Type': 'text/plain' } };
    assertRefused(await h.request(method, path, more), 415, 'UNSUPPORTED_MEDIA_TYPE', name);
    const large =
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      'Content-Length: 1048577\r\n\r\n';
    assert.match(await h.raw(large), /^HTTP\/1\.1 413 [^]*"PAYLOAD_TOO_LARGE"/, name);
  }
});

test('every write gives the same answer again under its Idempotency-Key', async (t) => {
  const h = await house(t);
  let i = 0;
  await visitAll(h, async (visit, answer) => {
    if (visit.method === 'GET' || visit.name === 'keyAdd') return;
    const again = await h.request(visit.method, visit.path, visit.request);
    assert.deepEqual([again.status, again.text], [answer.status, answer.text], visit.name);
    const other = { ...visit.request, body: { ...visit.body, nosuchfield: 1 } };
    assert.equal((await h.request(visit.method, visit.path, other)).status, 400, visit.name);
    const elsewhere = await h.post('/api/tasks', { title: 'another' }, visit.request);
    assertRefused(elsewhere, 422, 'IDEMPOTENCY_KEY_REUSED', visit.name);
  }, ({ method, name }) => (method === 'GET' || name === 'keyAdd' ? {}
    : { headers: { 'Idempotency-Key': `key ${i++}` } }));
});

test('HEAD of everything that can be read: no body, and the connection goes on', async (t) => {
  const h = await house(t);
  await visitAll(h, async ({ name, method, path }, { status }) => {
    if (method !== 'GET' || name === 'poll') return; // a GET that takes something has no HEAD
    const answer =
      await h.request('HEAD', path, { ...OWNER, headers: { Accept: 'application/json' } });
    assert.equal(answer.status, status, path);
    assert.equal(answer.text, '');
    assert.equal(answer.headers['content-type'], 'application/json');
    assert.ok(Number(answer.headers['content-length']) > 2);
  });
});
