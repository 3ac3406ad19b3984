// SPDX-License-Identifier: MIT
// JSON that must be refused is, JSON that must be taken is kept as it was, and the daemon goes on.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';

/** A value of JSON that is none. Each is tried as a whole body and inside one. */
const BROKEN = [
  // structure
  '[1,]', '[,1]', '[1,,2]', '[1 2]', '[1;2]', '[', ']', '[1', '[1}', '[[1]', '{', '}', '{]',
  '{"a"}', '{"a":}', '{"a"::1}', '{"a" 1}', '{"a":1,}', '{,"a":1}', '{"a":1 "b":2}',
  '{"a":1;"b":2}', '{a:1}', '{1:1}', '{null:1}', '{[]:1}', '{"a":1}}', '[1]]', '[1][2]', '{}{}',
  '{} 1', '1 2', '"a" "b"', '[1]x', '{},', '{}#', '*', '<a/>', '&', 'a', '[a]', '[1:2]', '["a":1]',
  // words
  'nul', 'nulll', 'Null', 'NULL', 'True', 'tru', 'FALSE', 'undefined', 'NaN', '-NaN', 'nan',
  'Infinity', '-Infinity', 'inf',
  // numbers
  '+1', '.5', '-.5', '1.', '1.e5', '01', '-01', '00', '-', '--1', '1-', '0x10', '0b1', '0o7', '1e',
  '1e+', '1e-', '1ee5', '1e5.5', '1_000', '1,000', '1e400', '-1e400', '1e99999999',
  '9223372036854775808', '-9223372036854775809', '99999999999999999999999999', '2.', '0e', '0.e1',
  '1.2.3', '１', '٣', '1f', '1L', '1n',
  // text
  '"', '"a', 'a"', "'a'", '`a`', '"a\n"', '"a\t"', '"a\r"', '"\u0001"', '"\u001f"', '"\\x41"',
  '"\\a"', '"\\0"', '"\\', '"\\"', '"\\u"', '"\\u12"', '"\\u12G4"', '"\\U0041"', '"\\u{41}"',
  '"\\u-041"', '"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"',
  '"\\ud800\\ud800"', '"\\udc00\\ud800"', '"\\ud83d"', '"\\ud800x"', '"\\uD800\\n"',
  '{"\\u0000":1}', '{"\\ud800":1}', '"a""b"', '“a”',
  // comments and other dialects
  '/*c*/1', '1/*c*/', '1//c', '//c\n1', '#c\n1', '<!--c-->1', '{"a":1/*c*/}', '{"a":1,//c\n"b":2}',
  "{'a':1}", '{"a":\'b\'}', '("a")', '$a', '@a', 'a:1', '---\n1', '\v1', '\f1', '\u00a01',
  '\u20281', '\ufeff1', '1\ufeff', '1\u0000', '\u00001',
  // what is said twice
  '{"a":1,"a":1}', '{"a":1,"b":2,"a":3}', '{"x":{"a":1,"a":2}}', '[{"a":1,"a":2}]',
  '{"a":1,"\\u0061":2}',
];

/** Bytes that are not UTF-8, to stand inside a text. */
const NOT_UTF8 = [
  '80', 'bf', 'c0', 'c080', 'c0af', 'c1bf', 'c2', 'c328', 'e0', 'e08080', 'e080af', 'e09fbf',
  'e282', 'e28228', 'eda080', 'edbfbf', 'eda080edb080', 'f0', 'f0808080', 'f08fbfbf', 'f09f98',
  'f0288cbc', 'f4908080', 'f5808080', 'f888808080', 'fc8480808080', 'fe', 'ff', 'fffe', 'c3a9e9',
  'e9'
].map((hex) => Buffer.from(hex, 'hex'));

function assertInvalid(answer, what) {
  assert.equal(answer.status, 400, `${what}: ${answer.text}`);
  assert.equal(answer.json.error, 'INVALID_REQUEST');
  assert.match(answer.json.message, /\w+ \w+/);
}

/** Nothing has happened, and the daemon is the same one. */
async function assertUntouched(h, pid) {
  const { last } =
    await h.ok('GET', '/api/events', undefined, { headers: { Accept: 'application/json' } });
  assert.equal(last, 0);
  assert.equal(h.daemon.child.pid, pid);
  assert.equal(h.daemon.child.exitCode, null);
}

test('what is not JSON is refused with the place where it stops being', async (t) => {
  const h = await house(t);
  const { pid } = h.daemon.child;
  assert.ok(BROKEN.length >= 150);
  for (const text of BROKEN) {
    assertInvalid(await h.post('/api/tasks', text), text);
    const inside = await h.post('/api/tasks', `{"title":"x","params":${text}}`);
    assertInvalid(inside, text);
    assert.match(inside.json.message, /JSON is not valid at byte \d+/, text);
  }
  await assertUntouched(h, pid);
});

test('bytes that are not UTF-8 are refused, wherever they are', async (t) => {
  const h = await house(t);
  const { pid } = h.daemon.child;
  for (const bytes of NOT_UTF8) {
    for (const [before, after] of [['{"title":"', '"}'], ['{"title":"x","params":{"', '":1}}'],
           ['{"title":"x"}', ''], ['', '{"title":"x"}']]) {
      assertInvalid(await h.post('/api/tasks',
                      Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)])),
        bytes.toString('hex'));
    }
  }
  await assertUntouched(h, pid);
});

test('UTF-16, UTF-32, a byte order mark and NUL bytes are refused', async (t) => {
  const h = await house(t);
  const { pid } = h.daemon.child;
  const utf16 = Buffer.from('{"title":"x"}', 'utf16le');
  const bodies = [
    utf16, Buffer.from(utf16).swap16(), Buffer.from(`\ufeff{"title":"x"}`),
    Buffer.from('\ufeff{"title":"x"}', 'utf16le'), Buffer.from('{"title":"x\0"}'),
    Buffer.from('{"title":"x"}\0'), Buffer.from('\0{"title":"x"}'), Buffer.alloc(64),
    Buffer.from([0x7b])
  ];
  for (const body of bodies) assertInvalid(await h.post('/api/tasks', body), body.toString('hex'));
  await assertUntouched(h, pid);
});

test('32 levels are enough; 33, 10,000 and 500,000 are refused', async (t) => {
  const h = await house(t);
  const nested = (depth, open = '[', close = ']') => open.repeat(depth) + close.repeat(depth);
  const body = (params) => `{"title":"x","params":${params}}`;
  assert.equal((await h.post('/api/tasks', body(nested(31)))).status, 201);
  assert.equal((await h.post('/api/tasks',
                  body('{"a":'.repeat(31) + '1' +
                    '}'.repeat(31))))
                 .status,
    201);
  for (const depth of [32, 33, 1000, 10_000, 500_000]) {
    for (const text of [nested(depth), '{"a":'.repeat(Math.min(depth, 150_000)),
           nested(depth, '[', ''), nested(depth, '[{"a":', '')]
           .slice(0, depth > 100_000 ? 2 : 4)) {
      assertInvalid(await h.post('/api/tasks', body(text)), depth);
      assertInvalid(await h.post('/api/tasks', text + (depth === 32 ? '[' : '')), depth);
    }
  }
  assertInvalid(await h.post('/api/tasks', ']'.repeat(1_000_000)), 'only closing');
  assert.equal((await h.ok('GET', '/api/tasks')).tasks.length, 2);
});

test('brackets within text do not count as levels', async (t) => {
  const h = await house(t);
  const title = '[{"'.repeat(300);
  assert.equal((await h.ok('POST', '/api/tasks', { title })).task.title, title);
});

test('what is JSON is taken and given back as it was', async (t) => {
  const h = await house(t);
  const same = [
    'true', 'false', '0', '-0', '1', '-1', '9223372036854775807', '-9223372036854775808', '0.1',
    '0.5', '-0.25', '1.7976931348623157e+308', '5e-324', '1e-07', '123456789012345680.0', '""',
    '"a"', '"\\"\\\\\\b\\f\\n\\r\\t"', '"\\u0001\\u001f"', '"/"', '"ü"', '"€"', '"😀"', '"\u007f"',
    '"\u2028\u2029"', '"\uffff"', '"\u{10ffff}"', '[]', '{}', '[[]]', '[null]', '{"":0}',
    '{"a":{"a":[{"a":1}]}}', '{"b":1,"a":2}'
  ];
  for (const text of same) {
    const { status, text: answer } = await h.post('/api/tasks', `{"title":"x","params":${text}}`);
    assert.equal(status, 201, text);
    const value = JSON.parse(text);
    assert.deepEqual(JSON.parse(answer).task.params, Object.is(value, -0) ? 0 : value, text);
    if (!/^-0$|e|\.0$/.test(text))
      assert.ok(answer.includes(`"params":${text}`), `${text}: ${answer}`);
  }
});

test('other ways to write the same are read as the same', async (t) => {
  const h = await house(t);
  const ways = [
    ['"\\u0041\\u00fc\\u20ac\\ud83d\\ude00"', 'Aü€😀'], ['"\\/"', '/'], ['1E2', 100], ['1e2', 100],
    ['1.50', 1.5], [' [ 1 , 2 ] ', [1, 2]], ['\t\r\n{ "a" :\n1 }\r\n', { a: 1 }],
    ['"\\uFFFE\\uFDD0"', '\ufffe\ufdd0']
  ];
  for (const [text, value] of ways) {
    const { json } = await h.post('/api/tasks', `{"title":"x","params":${text}}`);
    assert.deepEqual(json.task.params, value, text);
  }
});

test('numbers where a whole number is wanted are taken exactly or not at all', async (t) => {
  const h = await house(t);
  for (const text of ['1.0', '1e0', '50.5', '"50.0"', '1e400', '9223372036854775808', 'true',
         '[]', '{}', '-1', '101'])
    assertInvalid(await h.post('/api/tasks', `{"title":"x","priority":${text}}`), text);
  assert.equal((await h.post('/api/tasks', '{"title":"x","priority":50}')).status, 201);
});

test('nothing that is refused is refused in other operations only', async (t) => {
  const h = await house(t);
  const { pid } = h.daemon.child;
  const some = [
    '{', '{"a":1,"a":2}', '"\\u0000"', '{"sessionId":"\\ud800"}', '[[[[', '{"x":1e400}',
    "{'a':1}", '\ufeff{}', '{}x', 'nul'
  ];
  for (const [method, path] of [['PATCH', '/api/tasks/t'], ['POST', '/api/tasks/t/claim'],
         ['POST', '/api/tasks/claim'], ['POST', '/api/tasks/t/complete'],
         ['POST', '/api/tasks/t/cancel'], ['POST', '/api/sessions'],
         ['POST', '/api/sessions/s/heartbeat'], ['DELETE', '/api/sessions/s'],
         ['POST', '/api/locks'], ['DELETE', '/api/locks'], ['POST', '/api/keys'],
         ['GET', '/api/tasks']]) {
    for (const body of some)
      assertInvalid(await h.request(method, path, { body }), `${path} ${body}`);
  }
  await assertUntouched(h, pid);
});
