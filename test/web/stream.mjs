// SPDX-License-Identifier: MIT
// Tests of web/stream.js: events are read as the standard says, however the bytes arrive.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

// a browser knows by the content type that it is a module; node is told so
const source = readFileSync(new URL('../../web/stream.js', import.meta.url));
const { EventParser, backoff, readEvents } = await import(
  `data:text/javascript;base64,${source.toString('base64')}`);

const STREAM = ': hello\n\nid: 7\nevent: task:claimed\ndata: {"a":1}\n\n'
  + 'id: 8\nevent: task:completed\ndata: one\ndata: two\n\n';
const EVENTS = [
  { id: '7', type: 'task:claimed', data: '{"a":1}' },
  { id: '8', type: 'task:completed', data: 'one\ntwo' },
];

function parse(...pieces) {
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

test('whole events come out, comments do not', () => {
  assert.deepEqual(parse(STREAM), EVENTS);
});

test('it does not matter where the stream is cut', () => {
  for (let cut = 0; cut <= STREAM.length; cut++) {
    assert.deepEqual(parse(STREAM.slice(0, cut), STREAM.slice(cut)), EVENTS);
  }
  assert.deepEqual(parse(...STREAM), EVENTS);
});

test('lines may end in LF, CR LF or CR', () => {
  assert.deepEqual(parse(STREAM.replaceAll('\n', '\r\n')), EVENTS);
  assert.deepEqual(parse(...STREAM.replaceAll('\n', '\r\n')), EVENTS);
  assert.deepEqual(parse(`${STREAM.replaceAll('\n', '\r')}:`), EVENTS);
});

test('an event that is not finished is kept back', () => {
  assert.deepEqual(parse('id: 1\ndata: x\n'), []);
  assert.deepEqual(parse('id: 1\ndata: x\n', '\n'), [{ id: '1', type: 'message', data: 'x' }]);
});

test('an event without data is none, but its id counts', () => {
  assert.deepEqual(parse('id: 5\nevent: x\n\n', 'data: y\n\n'),
    [{ id: '5', type: 'message', data: 'y' }]);
});

test('only the first blank behind the colon goes', () => {
  assert.deepEqual(parse('data:  two\ndata:none\ndata\nother: x\n\n')[0].data, ' two\nnone\n');
});

test('a stream of bytes is read to its end, characters cut in two included', async () => {
  const bytes = Buffer.from('id: 3\ndata: caf\u00e9 \u{1F4A5}\n\n');
  const body = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const seen = [];
  assert.equal(await readEvents({ body }, (event) => seen.push(event)), '3');
  assert.deepEqual(seen, [{ id: '3', type: 'message', data: 'caf\u00e9 \u{1F4A5}' }]);
});

test('attempts to connect become rarer, up to a bound', () => {
  const waits = [0, 1, 2, 3, 4, 5, 6, 100].map(backoff);
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
});
