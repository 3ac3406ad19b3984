// SPDX-License-Identifier: MIT
// The wire itself, byte by byte: connections that stay, requests in a row, bodies of both kinds,
// old and careful callers.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, Running } from './lib/daemon.mjs';
import { allAnswers, bytesOf, Caller } from './lib/raw.mjs';

const IN_CHUNKS = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
const health = bytesOf('GET', '/healthz');
const make = (id) => bytesOf('POST', '/api/tasks', { body: JSON.stringify({ id, title: 'x' }) });

async function caller(t, h, more) {
  const c = new Caller(t, h, more);
  await c.connected;
  return c;
}

/** Sends bytes on a connection of their own and returns the statuses of all answers, until the
 * daemon hangs up. */
async function statuses(h, bytes) {
  return allAnswers(await h.raw(bytes)).map(({ status }) => status);
}

const ids = async (h) => (await h.ok('GET', '/api/tasks?limit=1000')).tasks.map(({ id }) => id);

/** An answer as it leaves the daemon, with the headers that all have. */
function assertWhole({ line, headers, body }) {
  assert.match(line, /^HTTP\/1\.1 \d{3} \w/);
  assert.ok(Math.abs(Date.parse(headers.date) - Date.now()) < 60_000);
  assert.match(headers['content-type'], /^(application\/json|text\/)/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(Number(headers['content-length']), body.length);
}

test('a connection stays, for one request after another', async (t) => {
  const h = await house(t);
  for (const socket of [false, true]) {
    const c = await caller(t, h, { socket });
    for (let i = 0; i < 100; i++) {
      await c.send(i % 2 === 0 ? health : make(`${socket}${i}`));
      const answer = await c.answer();
      assert.equal(answer.status, i % 2 === 0 ? 200 : 201);
      assert.equal(answer.headers.connection, undefined);
      assertWhole(answer);
    }
  }
  assert.match((await h.get('/metrics')).text, /^dibs_connections 3$/m);
});

test('a hundred requests in one write are answered in order', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  const kinds = (i) => [make(`t${i}`), bytesOf('GET', `/api/tasks/t${i - 1}`),
    bytesOf('HEAD', `/api/tasks/t${i - 2}`), health, bytesOf('GET', `/nosuch/${i}`)][i % 5];
  await c.send(Array.from({ length: 100 }, (_, i) => kinds(i)).join(''));
  for (let i = 0; i < 100; i++) {
    const { status, body } = await c.answer({ head: i % 5 === 2 });
    assert.equal(status, [201, 200, 200, 200, 404][i % 5], `number ${i}`);
    if (i % 5 < 2) assert.equal(JSON.parse(body).task.id, `t${i - i % 5}`);
    if (i % 5 === 4) assert.match(body, new RegExp(`/nosuch/${i}'`));
  }
  assert.equal((await ids(h)).length, 20);
});

test('ten thousand small requests in a row are answered, each once', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  const last = bytesOf('GET', '/healthz', { headers: ['Connection: close'] });
  c.send(health.repeat(9_999) + last);
  await c.closed;
  const answers = allAnswers(c.text);
  assert.equal(answers.length, 10_000);
  assert.ok(
    answers.every(({ status, body }) => status === 200 && JSON.parse(body).status === 'ok'));
  assert.equal(answers.at(-1).headers.connection, 'close');
});

test('a thousand writes in a row are done in order, each once', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  c.send(Array.from({ length: 1000 }, (_, i) => make(`t${i}`)).join(''));
  for (let i = 0; i < 1000; i++) assert.equal(JSON.parse((await c.answer()).body).task.id, `t${i}`);
  assert.deepEqual(await ids(h), Array.from({ length: 1000 }, (_, i) => `t${i}`));
});

test('a request may come in pieces of any size', async (t) => {
  const h = await house(t);
  for (const size of [1, 2, 3, 7, 50]) {
    const c = await caller(t, h);
    const bytes = make(`size${size}`);
    for (let at = 0; at < bytes.length; at += size) await c.send(bytes.slice(at, at + size));
    assert.equal((await c.answer()).status, 201);
  }
  assert.equal((await ids(h)).length, 5);
});

test('a body may come in chunks, however they are cut', async (t) => {
  const h = await house(t);
  const head = bytesOf('POST', '/api/tasks', { headers: IN_CHUNKS });
  const cut = (text, size) => text.match(new RegExp(`.{1,${size}}`, 'gs'))
    .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('');
  const c = await caller(t, h);
  for (const size of [1, 5, 16, 1000]) {
    await c.send(
      `${head}${cut(JSON.stringify({ id: `c${size}`, title: 'x'.repeat(500) }), size)}0\r\n\r\n`);
    assert.equal((await c.answer()).status, 201, size);
  }
  await c.send(`${head}0000000B\r\n{"title":"x\r\n2\r\n"}\r\n00000\r\n\r\n`);
  assert.equal((await c.answer()).status, 201, 'upper case and leading noughts');
  await c.send(health);
  assert.equal((await c.answer()).status, 200, 'the connection is still in step');
});

test('a body of exactly 1 MiB is taken, by length and in chunks', async (t) => {
  const h = await house(t);
  const title = '{"title":"x"}';
  const body = title + ' '.repeat(1024 * 1024 - title.length);
  assert.equal((await h.post('/api/tasks', body)).status, 201);
  const chunks = `100000\r\n${body}\r\n0\r\n\r\n`;
  const head = bytesOf('POST', '/api/tasks', { headers: [...IN_CHUNKS, 'Connection: close'] });
  assert.deepEqual(await statuses(h, head + chunks), [201]);
});

test('who asks first is told to go on, and then answered', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  const bytes =
    bytesOf('POST', '/api/tasks', { body: '{"title":"x"}', headers: ['Expect: 100-continue'] });
  const at = bytes.indexOf('\r\n\r\n') + 4;
  for (let i = 0; i < 3; i++) {
    await c.send(bytes.slice(0, at));
    const interim = await c.answer();
    assert.deepEqual([interim.line, interim.headers], ['HTTP/1.1 100 Continue', {}]);
    await c.send(bytes.slice(at));
    assert.equal((await c.answer()).status, 201);
  }
  await c.send(bytes);
  assert.equal((await c.answer()).status, 201, 'who has not waited is not told');
});

test('who asks first for what cannot be is not told to go on', async (t) => {
  const h = await house(t);
  const ask = (headers, more = {}) => h.raw(bytesOf(
    'POST', '/api/tasks', { headers: ['Content-Type: application/json', ...headers], ...more }));
  assert.match(await ask(['Content-Length: 1048577', 'Expect: 100-continue']), /^HTTP\/1\.1 413 /);
  assert.match(await ask(['Content-Length: 5', 'Expect: 200-ok']), /^HTTP\/1\.1 417 /);
  const old = await h.raw(`${
    bytesOf('POST', '/api/tasks',
      { version: '1.0', body: '{"title":"x"}', headers: ['Expect: 100-continue'] })}`);
  assert.deepEqual(
    allAnswers(old).map(({ status }) => status), [201], 'HTTP/1.0 does not know 100');
});

test('HEAD is the head of GET: the same length and no body, also of a refusal', async (t) => {
  const h = await house(t);
  await h.task({ id: 't' });
  const c = await caller(t, h);
  for (const path of ['/healthz', '/readyz', '/', '/page.js', '/api/tasks', '/api/tasks/t',
         '/api/tasks/nosuch', '/nosuch', '/api/openapi.json', '/api/events?limit=1']) {
    const headers = ['Accept: application/json'];
    await c.send(bytesOf('HEAD', path, { headers }) + bytesOf('GET', path, { headers }));
    const head = await c.answer({ head: true });
    const get = await c.answer();
    assert.deepEqual([head.status, head.headers['content-length'], head.headers['content-type']],
      [get.status, get.headers['content-length'], get.headers['content-type']], path);
  }
});

test('HTTP/1.0 is hung up on after the answer, unless it asks to stay', async (t) => {
  const h = await house(t);
  const old = (headers) => bytesOf('GET', '/healthz', { version: '1.0', headers });
  const [only] = allAnswers(await h.raw(old([]) + old([])));
  assert.deepEqual(
    [only.status, only.headers.connection, only.line.slice(0, 8)], [200, 'close', 'HTTP/1.1']);
  const answers = allAnswers(await h.raw(
    old(['Connection: keep-alive']).repeat(2) + old(['Connection: Keep-Alive, close'])));
  assert.deepEqual(
    answers.map(({ headers }) => headers.connection), ['keep-alive', 'keep-alive', 'close']);
  assert.deepEqual(await statuses(h, bytesOf('GET', '/healthz', { version: '1.0', host: null })),
    [421], 'it must name a host of ours');
});

test('Connection: close ends it after the answer; what came behind is not looked at', async (t) => {
  const h = await house(t);
  for (const value of ['close', 'Close', 'keep-alive, close', 'x, CLOSE , y']) {
    const bytes = bytesOf('GET', '/healthz', { headers: [`Connection: ${value}`] });
    const answers = allAnswers(await h.raw(bytes + make('canary')));
    assert.deepEqual(answers.map(({ headers }) => headers.connection), ['close'], value);
  }
  assert.deepEqual(await ids(h), []);
});

test('one empty line in front of a request is forgiven, a second is not', async (t) => {
  const h = await house(t);
  const c = await caller(t, h);
  await c.send(`\r\n${health}\r\n${health}`);
  assert.equal((await c.answer()).status, 200);
  assert.equal((await c.answer()).status, 200);
  assert.deepEqual(await statuses(h, `\r\n\r\n${health}`), [400]);
});

test('every answer is whole: of pages, of operations, of refusals', async (t) => {
  const h = await house(t);
  await h.task({ id: 't' });
  const requests = [
    health, bytesOf('GET', '/'), bytesOf('GET', '/metrics'), bytesOf('GET', '/readyz'),
    bytesOf('GET', '/api/openapi.json'), make('u'), make('t'), bytesOf('GET', '/api/tasks'),
    bytesOf('GET', '/nosuch'), bytesOf('PUT', '/api/tasks'),
    bytesOf('POST', '/api/tasks', { body: '{' }),
    bytesOf('GET', '/healthz', { host: 'evil.example' }), bytesOf('DELETE', '/api/locks'),
    bytesOf('OPTIONS', '/api/tasks')
  ];
  for (const answer of allAnswers(await h.raw(`${requests.join('')}GET / HTTP/9.9\r\n\r\n`)))
    assertWhole(answer);
  for (const bad of ['\n', 'GET / HTTP/2.0\r\n\r\n', 'BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n',
         bytesOf('GET', '/', { host: null })]) {
    const [answer] = allAnswers(await h.raw(bad));
    assertWhole(answer);
    assert.equal(answer.headers.connection, 'close');
    assert.equal(JSON.parse(answer.body).success, false);
  }
});

test('a caller that asks to upgrade is answered in HTTP/1.1', async (t) => {
  const h = await house(t);
  for (const [upgrade, connection] of [
         ['websocket', 'Upgrade'], ['h2c', 'Upgrade, HTTP2-Settings'], ['TLS/1.0', 'Upgrade']]) {
    const bytes =
      bytesOf('GET', '/healthz', { headers: [`Upgrade: ${upgrade}`, `Connection: ${connection}`] });
    const c = await caller(t, h);
    await c.send(bytes + health);
    assert.equal((await c.answer()).status, 200);
    assert.equal((await c.answer()).status, 200);
  }
  assert.deepEqual(await statuses(h, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), [400]);
});

/* ---- curl ---- */

async function curl(h, ...args) {
  const { code, out, err } = await new Running('curl',
    ['-sS', '--max-time', '20', ...args.map((arg) => arg.replace('URL', h.url))],
    {}).ended;
  assert.equal(code, 0, err);
  return out;
}

test('curl: one connection for many, chunks, the unix socket, HTTP/1.0', async (t) => {
  const h = await house(t);
  const json = ['-H', 'Content-Type: application/json'];
  const counted = await curl(h, '-o', '/dev/null', '-o', '/dev/null', '-o', '/dev/null', '-w',
    '%{http_code} %{num_connects},', 'URL/healthz', 'URL/readyz', 'URL/metrics');
  assert.equal(counted, '200 1,200 0,200 0,');
  assert.equal(
    JSON.parse(await curl(h, ...json, '-d', '{"id":"a","title":"x"}', 'URL/api/tasks')).task.id,
    'a');
  const large = JSON.stringify(
    { id: 'b', title: 'x', description: 'd'.repeat(60_000), params: 'p'.repeat(200_000) });
  const spawned = new Running('curl',
    [
      '-sS', ...json, '-H', 'Transfer-Encoding: chunked', '-H', 'Expect: 100-continue',
      '--data-binary', '@-', `${h.url}/api/tasks`
    ],
    { input: large });
  assert.equal(JSON.parse((await spawned.ended).out).task.params.length, 200_000);
  assert.equal(
    await curl(h, '-0', '-w', ' %{http_code} %{http_version}', '-o', '/dev/null', 'URL/healthz'),
    ' 200 1.1');
  assert.equal(
    JSON.parse(await curl(h, '--unix-socket', h.socket, 'http://localhost/healthz')).status,
    'ok');
  assert.match(
    await curl(h, '-I', 'URL/api/tasks'), /^HTTP\/1\.1 200 OK\r\n[^]*Content-Length: \d+\r\n/);
  assert.match(await curl(h, '-i', '-X', 'DELETE', 'URL/api/tasks'),
    /^HTTP\/1\.1 405 [^]*\r\nAllow: POST, GET\r\n/);
});

test('curl: the page compressed and not, and not again when it is there already', async (t) => {
  const h = await house(t);
  const plain = await curl(h, 'URL/');
  assert.equal(await curl(h, '--compressed', 'URL/'), plain);
  const head = await curl(h, '-I', '-H', 'Accept-Encoding: gzip', 'URL/');
  assert.match(head, /Content-Encoding: gzip/i);
  assert.match(head, /Content-Security-Policy: default-src 'none'/i);
  const etag = /ETag: (\S+)/i.exec(head)[1];
  assert.equal(await curl(h, '-o', '/dev/null', '-w', '%{http_code} %{size_download}', '-H',
                 `If-None-Match: ${etag}`, '-H', 'Accept-Encoding: gzip', 'URL/'),
    '304 0');
});
