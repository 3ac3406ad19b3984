// SPDX-License-Identifier: MIT
// Limits: of heads, targets, bodies, connections, and of patience. What is refused is refused
// early, and costs nothing that is not given back.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { allAnswers, bytesOf, Caller } from './lib/raw.mjs';

const health = bytesOf('GET', '/healthz');

async function caller(t, h, more) {
  const c = new Caller(t, h, more);
  await c.connected;
  return c;
}

async function only(h, bytes) {
  const answers = allAnswers(await h.raw(bytes));
  assert.equal(answers.length, 1, `${answers.length} answers`);
  return answers[0];
}

/** A GET whose head has exactly so many bytes. */
function headOf(bytes) {
  const base = bytesOf('GET', '/healthz', { headers: ['Connection: close', 'X-Filler: '] });
  return base.replace('X-Filler: ', `X-Filler: ${'x'.repeat(bytes - base.length)}`);
}

test('a head of 16 KiB is taken, one byte more is 431', async (t) => {
  const h = await house(t);
  assert.equal((await only(h, headOf(16 * 1024))).status, 200);
  for (const bytes of [16 * 1024 + 1, 16 * 1024 + 2, 20_000, 1_000_000]) {
    const { status, headers } = await only(h, headOf(bytes));
    assert.deepEqual([status, headers.connection], [431, 'close'], bytes);
  }
});

test('a head that never ends is 431 before it has ended', async (t) => {
  const h = await house(t);
  for (const endless of ['X: y\r\n', 'x', 'X-A: b\r\nX-C: d\r\n']) {
    const c = await caller(t, h);
    c.send('GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ' + endless.repeat(20_000));
    assert.equal((await c.answer()).status, 431);
  }
});

test('100 headers are taken, one more is 431', async (t) => {
  const h = await house(t);
  const some = (count) => bytesOf('GET', '/healthz', {
    headers: ['Connection: close', ...Array.from({ length: count - 2 }, (_, i) => `X-${i}: ${i}`)]
  });
  assert.equal((await only(h, some(100))).status, 200);
  assert.equal((await only(h, some(101))).status, 431);
  assert.equal((await only(h, some(1000))).status, 431);
});

test('a target of 8 KiB is taken, one byte more is 414', async (t) => {
  const h = await house(t);
  const target = (bytes) =>
    bytesOf('GET', `/${'x'.repeat(bytes - 1)}`, { headers: ['Connection: close'] });
  const query = (bytes) =>
    bytesOf('GET', `/healthz?${'x'.repeat(bytes - 9)}`, { headers: ['Connection: close'] });
  assert.equal((await only(h, target(8192))).status, 404);
  assert.notEqual((await only(h, query(8192))).status, 414);
  for (const bytes of [8193, 8194, 9000, 100_000]) {
    assert.equal((await only(h, target(bytes))).status, 414, bytes);
    assert.equal((await only(h, query(bytes))).status, 414, bytes);
  }
});

test('a body over 1 MiB is 413 when it is announced, before any of it is sent', async (t) => {
  const h = await house(t);
  for (const length of ['1048577', '2000000', '999999999999999999']) {
    const { status, headers, body } = await only(h,
      bytesOf('POST', '/api/tasks',
        { headers: [`Content-Length: ${length}`, 'Content-Type: application/json'] }));
    assert.deepEqual([status, headers.connection, JSON.parse(body).error],
      [413, 'close', 'PAYLOAD_TOO_LARGE'], length);
  }
});

test('chunks that add up to more than 1 MiB are 413 as soon as they do', async (t) => {
  const h = await house(t);
  const head = bytesOf('POST', '/api/tasks',
    { headers: ['Transfer-Encoding: chunked', 'Content-Type: application/json'] });
  for (const size of ['100001', 'fffffff', 'ffffffff'])
    assert.equal((await only(h, `${head}${size}\r\n`)).status, 413, size);
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
  assert.equal((await only(h, `${head}${chunk.repeat(16)}1\r\n`)).status, 413);
});

test('who sends a large body all the same reads the refusal, not a broken pipe', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  c.send(bytesOf('POST', '/api/tasks', { body: ' '.repeat(1_200_000) }));
  const { status } = await c.answer();
  assert.equal(status, 413);
});

test('beyond --max-connections callers are told 503; those inside go on', async (t) => {
  const h = await house(t, { args: ['--max-connections', '20'] });
  const inside = [];
  for (let i = 0; i < 20; i++) {
    inside.push(await caller(t, h));
    await inside[i].send(health);
    assert.equal((await inside[i].answer()).status, 200);
  }
  for (let i = 0; i < 5; i++) {
    const { status, headers } = await only(h, health);
    assert.deepEqual([status, headers.connection, headers['retry-after']], [503, 'close', '1']);
  }
  for (const c of inside) {
    await c.send(health);
    assert.equal((await c.answer()).status, 200);
  }
  inside[0].socket.destroy();
  await until(
    'there is room again', async () => allAnswers(await h.raw(bytesOf('GET', '/healthz', {
      headers: ['Connection: close']
    })))[0].status === 200);
  assert.match((await h.get('/metrics')).text, /^dibs_connections_refused_total [5-9]/m);
});

test('who does not finish its request is told 408 after ten seconds, and closed', async (t) => {
  const h = await house(t);
  const starts = [
    'G', 'GET /healthz HTTP/1.1\r\n', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n',
    `${health.slice(0, -2)}`, bytesOf('POST', '/api/tasks', { body: '{"title":"x"}' }).slice(0, -1),
    `${bytesOf('POST', '/api/tasks', {
      headers: ['Transfer-Encoding: chunked', 'Content-Type: application/json']
    })}5\r\n{"ti`
  ];
  const callers = [];
  for (const start of starts) {
    const c = await caller(t, h);
    await c.send(start);
    callers.push(c);
  }
  const dripping = await caller(t, h); // a byte now and then buys no time
  const drip = setInterval(() => dripping.send('x'), 500);
  t.after(() => clearInterval(drip));
  await dripping.send('GET /');
  for (const c of [...callers, dripping]) {
    const answer = await c.answer();
    assert.deepEqual([answer.status, answer.headers.connection], [408, 'close']);
  }
  clearInterval(drip);
  await Promise.all(callers.map((c) => c.closed));
  assert.deepEqual((await h.ok('GET', '/api/tasks')).tasks, []);
});

test('a connection that asks nothing is hung up on in time', async (t) => {
  const h = await house(t, { args: ['--idle-timeout', '1s', '--request-timeout', '1s'] });
  assert.equal(await h.raw(''), '', 'nothing asked, nothing answered');
  assert.match(await h.raw('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'), /200 OK/);
  assert.match(await h.raw('GET /healthz HTTP/1.1\r\n'), /^HTTP\/1\.1 408 /);
});
