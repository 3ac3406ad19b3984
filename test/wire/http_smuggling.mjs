// SPDX-License-Identifier: MIT
// Requests that two readers could understand differently. Behind each, or within its body, stands a
// canary: a request that would make a task. One refusal must come, the daemon must hang up, and the
// task must never be there.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';
import { allAnswers, bytesOf, Caller } from './lib/raw.mjs';

const canary = bytesOf('POST', '/api/tasks', { body: '{"id":"canary","title":"smuggled"}' });
const JSON_TYPE = 'Content-Type: application/json';

/** A POST with these header lines, whose body is a harmless task of 13 bytes. */
const post = (...headers) => `${
    ['POST /api/tasks HTTP/1.1', 'Host: localhost', JSON_TYPE, ...headers].join('\r\n')}\r\n\r\n`;
const BODY = '{"title":"x"}';
const CHUNKS = `d\r\n${BODY}\r\n0\r\n\r\n`;
const get = (...headers) =>
  `${['GET /healthz HTTP/1.1', 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
const line = (text) => `${text}\r\nHost: localhost\r\n\r\n`;

/** What stands behind the colon. One blank and the plain word would be fine; these are not. */
const LENGTHS = [
  ' +13', ' -13', ' 0x0d', ' 13 13', ' 13,13', ' 13, 13', ' 13, 14', ' 013', ' 00', ' 13\t',
  '\t13', '  13', ' 13 ', ' 13;', ' 13.0', ' 1e1', '', ' ', ' "13"', ' 13a', ' d',
  ' 18446744073709551629', ' 4294967309', ` ${'9'.repeat(30)}`, ' 13\x0b', ' \xa013',
  ' \xef\xbc\x91', ' -0', ' +0', ' 13\x00', ' thirteen'
];
const ENCODINGS = [
  ' Chunked', ' CHUNKED', ' xchunked', ' chunkedx', '  chunked', ' chunked ', '\tchunked',
  ' chunked\t', ' chunked, identity', ' identity, chunked', ' identity', ' gzip',
  ' gzip, chunked', ' chunked, chunked', ' chunked,', ' ,chunked', ' "chunked"', " 'chunked'",
  ' chunked;q=1', '', ' ', ' chunked\x0b', ' \x0bchunked', ' chunk\xeded', ' chun\x00ked',
  ' deflate', ' none', ' chunked\\'
];

const HEADS = {
  'two lengths that differ': [post('Content-Length: 13', 'Content-Length: 0') + BODY],
  'two lengths that agree': [post('Content-Length: 13', 'Content-Length: 13') + BODY],
  'a length and chunks': [
    post('Content-Length: 5', 'Transfer-Encoding: chunked') + `0\r\n\r\n`,
    post('Content-Length: 13', 'Transfer-Encoding: chunked') + CHUNKS,
    post('Transfer-Encoding: chunked', 'Content-Length: 5') + `0\r\n\r\n`,
    get('Content-Length: 0', 'Transfer-Encoding: chunked')
  ],
  'chunked twice': [
    post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked') + CHUNKS,
    post('Transfer-Encoding: chunked', 'Transfer-Encoding: identity') + CHUNKS
  ],
  'a length that is none': LENGTHS.map((value) => post(`Content-Length:${value}`) + BODY),
  'an encoding that is none':
    ENCODINGS.map((value) => post(`Transfer-Encoding:${value}`) + CHUNKS),
  'a name that is not one': [
    post('Transfer-Encoding : chunked') + CHUNKS, post('Content-Length : 13') + BODY,
    post('Content Length: 13') + BODY, post(': x', 'Content-Length: 13') + BODY,
    post('Transfer-Encoding\t: chunked') + CHUNKS, post('Content-Length\u0000: 13') + BODY,
    post('Transfer\u0000-Encoding: chunked') + CHUNKS, post('Content-Length') + BODY,
    post('(x): y', 'Content-Length: 13') + BODY, post('x"y: z', 'Content-Length: 13') + BODY,
    post('\xefx: y', 'Content-Length: 13') + BODY, get('x=y'), get('[x]: y')
  ],
  'a line that goes on': [
    post('X: y', ' Transfer-Encoding: chunked') + CHUNKS,
    post('Transfer-Encoding:', ' chunked') + CHUNKS, post('Content-Length: 1', ' 3') + BODY,
    post('X: y', '\tz', 'Content-Length: 13') + BODY, post('Content-Length:', '\t13') + BODY
  ],
  'a line that begins with a blank': [
    `POST /api/tasks HTTP/1.1\r\n Host: localhost\r\n\r\n`,
    `POST /api/tasks HTTP/1.1\r\n\tX: y\r\nHost: localhost\r\n\r\n`
  ],
  'a line that ends otherwise': [
    post('X: y\nTransfer-Encoding: chunked') + CHUNKS,
    post('X: y\rTransfer-Encoding: chunked') + CHUNKS, post('Content-Length: 13\n') + BODY,
    post('Content-Length: 13').replaceAll('\r\n', '\n') + BODY,
    post('Content-Length: 13').replaceAll('\r\n', '\r') + BODY,
    post('X: y\r\r\nContent-Length: 13') + BODY, post('X: a\u0000b', 'Content-Length: 13') + BODY,
    post('X: \x7f') + BODY, `GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n`,
    `GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n`, 'GET /healthz HTTP/1.1\nHost: localhost\n\n'
  ],
  'a host in doubt': [
    `GET /healthz HTTP/1.1\r\n\r\n`, get('Host: localhost'), get('Host: evil.example'),
    ...['', ' ', 'a b', 'localhost,evil', 'localhost/..', 'user@localhost', 'localhost:x',
      'localhost:99999', '[::1', '::1', 'localhost?x', 'localhost#x', 'http://localhost',
      'localhost\\evil', '%6cocalhost']
      .map((host) => `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  ],
  'a request line in doubt': [
    'GET  /healthz HTTP/1.1', 'GET /healthz  HTTP/1.1', ' GET /healthz HTTP/1.1',
    'GET\t/healthz HTTP/1.1', 'GET /healthz HTTP/1.1 ', 'GET /health z HTTP/1.1', 'GET /healthz',
    'GET', '/healthz', 'GET http://localhost/healthz HTTP/1.1', 'GET localhost HTTP/1.1',
    'GET * HTTP/1.1', 'CONNECT localhost:80 HTTP/1.1', 'GET /healthz#x HTTP/1.1',
    'GET /healthz HTTP/1.1x', 'GET /healthz http/1.1', 'GET /healthz HTTP/1.10',
    'GET /healthz HTTP/01.1', 'GET /healthz HTTP/1', 'GET /healthz HTTP/1.2',
    'GET /healthz HTTP/2.0', 'GET /healthz HTTP/0.9', 'GET /healthz HTP/1.1',
    'get /healthz HTTP/1.1', 'G\u0000T /healthz HTTP/1.1', 'GET /\u0000 HTTP/1.1',
    'GET /\xff HTTP/1.1', 'GET /\x7f HTTP/1.1', 'POST/api/tasks HTTP/1.1', 'BREW /pot HTTP/1.1',
    'TRACE /healthz HTTP/1.1', 'GE(T /healthz HTTP/1.1', 'HTTP/1.1 200 OK', '{"title":"x"}',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'
  ].map(line),
  'what may be there once': [
    'Authorization: Bearer x', 'X-API-Key: x', 'Idempotency-Key: x', 'Origin: http://localhost',
    'Content-Type: application/json', 'Last-Event-ID: 1'
  ].map((header) => get(header, header)),
  'chunks with HTTP/1.0':
    [(post('Transfer-Encoding: chunked') + CHUNKS).replace('HTTP/1.1', 'HTTP/1.0')],
};

const CHUNKED =
  [
    'd;x=y\r\n', 'd;\r\n', 'd \r\n', ' d\r\n', '+d\r\n', '-d\r\n', '0xd\r\n', '\r\n', 'd\n',
    'd\r', 'g\r\n', '00000000d\r\n', 'd\t\r\n', 'd\u0000\r\n', 'ffffffffffffffff1\r\n', 'd.0\r\n',
    '１\r\n', ';x\r\n'
  ].map((size) => `${size}${BODY}\r\n0\r\n\r\n`)
    .concat([
      `c\r\n${BODY}\r\n0\r\n\r\n`, `e\r\n${BODY}\r\n0\r\n\r\n`, `d\r\n${BODY}0\r\n\r\n`,
      `d\r\n${BODY}\n0\r\n\r\n`, `d\r\n${BODY}\r0\r\n\r\n`, `d\r\n${BODY}\r\n0\r\nX: y\r\n\r\n`,
      `d\r\n${BODY}\r\n0\r\nContent-Length: 5\r\n\r\n`, `d\r\n${BODY}\r\n0\r\n\n`,
      `d\r\n${BODY}\r\n0\n\r\n`, `d\r\n${BODY}\r\n0;x\r\n\r\n`, `d\r\n${BODY}\r\n0\r\n\r`,
      `d\r\n${BODY}\r\n0\r\n \r\n`, '\r\n\r\n',
      '0', '0\r', `d\r\n${BODY}\r\n\r\n\r\n`
    ]);

const all =
  Object
    .entries({
      ...HEADS,
      'a chunk that is none': CHUNKED.map((chunks) => post('Transfer-Encoding: chunked') + chunks)
    })
    .flatMap(([what, list]) => list.map((bytes) => ({ what, bytes })));

/** Exactly one answer, a refusal, and the line is closed. */
function assertOneRefusal(text, { what, bytes }) {
  const answers = allAnswers(text);
  const shown = `${what}: ${JSON.stringify(bytes)}`;
  assert.equal(answers.length, 1, shown);
  assert.ok([400, 413, 501, 505].includes(answers[0].status), `${answers[0].status} ${shown}`);
  assert.equal(answers[0].headers.connection, 'close', shown);
}

const tasks = async (h) => (await h.ok('GET', '/api/tasks')).tasks.map(({ id }) => id);

test('the canary is one: behind a plain request it makes a task', async (t) => {
  const h = await house(t);
  assert.equal(
    allAnswers(await h.raw(get() + canary.replace('Host:', 'Connection: close\r\nHost:'))).length,
    2);
  assert.deepEqual(await tasks(h), ['canary']);
});

test('what is in doubt is refused once, and the canary behind it is never done', async (t) => {
  const h = await house(t);
  assert.ok(all.length >= 150, `${all.length} cases`);
  for (const each of all)
    assertOneRefusal(await h.raw(Buffer.from(each.bytes + canary, 'latin1')), each);
  assert.deepEqual(await tasks(h), []);
});

test('nor is it when the bytes come one by one', async (t) => {
  const h = await house(t);
  const some = all.filter(({ bytes }, i) => i % 3 === 0 && bytes.length < 250);
  assert.ok(some.length >= 40);
  await Promise.all(some.map(async (each) => {
    const c = new Caller(t, h);
    await c.connected;
    for (const byte of each.bytes + canary) {
      if (c.isClosed || c.received > 0) break;
      await c.send(byte);
    }
    c.socket.end();
    await c.closed;
    assertOneRefusal(c.text, each);
  }));
  assert.deepEqual(await tasks(h), []);
});

test('a canary inside a body stays a body', async (t) => {
  const h = await house(t);
  const title = JSON.stringify({ title: canary });
  const chunk = `${title.length.toString(16)}\r\n${title}\r\n0\r\n\r\n`;
  const close = 'Connection: close';
  for (const bytes of [bytesOf('POST', '/api/tasks', { body: title, headers: [close] }),
         post('Transfer-Encoding: chunked', close) + chunk]) {
    assert.deepEqual(allAnswers(await h.raw(bytes)).map(({ status }) => status), [201]);
  }
  for (const bytes of [get(`Content-Length: ${canary.length}`, close) + canary,
         get('Transfer-Encoding: chunked', close) +
           `${canary.length.toString(16)}\r\n${canary}\r\n0\r\n\r\n`,
         `HEAD${get(`Content-Length: ${canary.length}`, close).slice(3)}${canary}`,
         `DELETE /nosuch${get(`Content-Length: ${canary.length}`, close).slice(12)}${canary}`]) {
    assert.equal(allAnswers(await h.raw(bytes), () => bytes.startsWith('HEAD')).length, 1);
  }
  assert.deepEqual(
    (await h.ok('GET', '/api/tasks')).tasks.map((task) => task.title), [canary, canary]);
});

test('a body that is refused unread is not read as the next request', async (t) => {
  const h = await house(t);
  const large = post(`Content-Length: ${2_000_000}`) + canary.repeat(100);
  const wrong = bytesOf('POST', '/api/tasks', {
    headers: ['Content-Type: text/plain', `Content-Length: ${canary.length}`, 'Connection: close']
  }) +
    canary;
  assert.equal(allAnswers(await h.raw(large))[0].status, 413);
  assert.deepEqual(allAnswers(await h.raw(wrong)).map(({ status }) => status), [415]);
  assert.deepEqual(await tasks(h), []);
});

test('header values that would split an answer come back in none', async (t) => {
  const h = await house(t);
  const split = encodeURIComponent('x\r\nX-Injected: 1\r\n\r\n');
  for (const path of [`/api/tasks/${split}`, `/api/tasks?type=${split}`, `/api/tasks?${split}=1`,
         `/${split}`, `/api/tasks?cursor=${split}`]) {
    const { headers } = await h.get(path);
    assert.equal(headers['x-injected'], undefined, path);
  }
});
