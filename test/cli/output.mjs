// SPDX-License-Identifier: MIT
// What reaches the screen: colours, widths, control characters, and outputs that cannot be written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

const EVIL = 'a\u001b[31m red \u0007\u009b2J\u202e\n\u007f end';
const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/;

/** A store in which everything that can hold text holds control characters. */
async function evil(t) {
  const p = await place(t);
  await p.dibs('task', 'add', EVIL, '--type', EVIL, '--phase', EVIL, '--tag', EVIL,
    '--description', EVIL, '--param', `k=${EVIL}`);
  await p.dibs('claim', '1', '--agent-type', EVIL);
  await p.dibs('progress', '1', '--percent', '1', '--message', EVIL, '--checkpoint', EVIL);
  await p.dibs('lock', 'take', EVIL);
  return p;
}

test('no control character of a text reaches the terminal', async (t) => {
  const p = await evil(t);
  const commands = [['task', 'list'], ['task', 'show', '1'], ['task', 'show', '1', '--history'],
    ['in-flight'], ['stats'], ['scores'], ['session', 'list'], ['session', 'show'],
    ['session', 'summary'], ['lock', 'list'], ['lock', 'list', '-q'], ['events'], ['claim', '1'],
    ['lock', 'heartbeat', EVIL], ['lock', 'release', EVIL], ['lock', 'release', EVIL],
    ['fail', '1', '--error', EVIL], ['task', 'show', '1'], ['block', '1', '--reason', EVIL],
    ['task', 'add', EVIL], ['task', 'show', EVIL], ['claim', EVIL], [EVIL], [`--${EVIL}`],
    ['task', 'list', '--limit', EVIL], ['task', 'import', EVIL], ['backup', `/no/${EVIL}`],
    ['task', 'list', '--data', EVIL], ['--session', EVIL, 'claim'], ['lock', 'x', '--', EVIL]];
  for (const command of commands) {
    const { out, err } = await p.dibs(...command);
    assert.doesNotMatch(out, RAW, JSON.stringify(command));
    assert.doesNotMatch(err, RAW, JSON.stringify(command));
    assert.ok(out.length + err.length > 0, JSON.stringify(command));
  }
});

test('JSON keeps the text and still holds no raw control character', async (t) => {
  const p = await evil(t);
  for (const command of [['task', 'show', '1'], ['lock', 'list'], ['events'], ['in-flight']]) {
    const { out } = await p.run(['--json', ...command]);
    assert.doesNotMatch(out.trimEnd(), RAW);
    assert.ok(JSON.stringify(JSON.parse(out)).includes(JSON.stringify(EVIL).slice(1, -1)));
  }
});

test('escapes are readable', async (t) => {
  const p = await place(t);
  const { out } = await p.dibs('task', 'add', 'a\u001b[0m\n\tb\u009bc\u202ed');
  assert.equal(out, "added 1 'a\\x1b[0m\\n\\tb\\u009bc\\u202ed' (open, priority 50)\n");
});

test('colours are for terminals only', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  const coloured = /\u001b\[\d+m/;
  assert.match((await p.tty('"$dibs" task list')).out, coloured);
  assert.doesNotMatch((await p.dibs('task', 'list')).out, coloured);
  assert.doesNotMatch((await p.tty('"$dibs" task list', { NO_COLOR: '1' })).out, coloured);
  assert.match((await p.tty('"$dibs" task list', { NO_COLOR: '' })).out, coloured);
  assert.doesNotMatch((await p.tty('"$dibs" task list', { TERM: 'dumb' })).out, coloured);
  assert.doesNotMatch((await p.tty('"$dibs" task list --no-color')).out, coloured);
});

test('a narrow terminal cuts the title, a pipe never', async (t) => {
  const p = await place(t);
  const title = 'a rather long title that goes on '.repeat(5).trim();
  await p.dibs('task', 'add', title);
  await p.dibs('task', 'add', '\u6c49'.repeat(80));
  const { out } = await p.tty('stty cols 70; "$dibs" task list --no-color');
  const lines = out.trimEnd().split('\r\n');
  assert.match(lines[1], /a rather long .*\u2026 +- +/);
  assert.equal(lines[1].length, 70);
  assert.ok([...lines[2]].reduce((sum, c) => sum + (c === '\u6c49' ? 2 : 1), 0) <= 70);
  assert.ok((await p.dibs('task', 'list')).out.includes(title));
});

test('widths are right in a locale that knows nothing of UTF-8', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', '\u6c49\u5b57');
  await p.dibs('task', 'add', 'abcd');
  const utf8 = await p.dibs('task', 'list');
  const c = await p.run(['task', 'list'], { env: { LC_ALL: 'C', LANG: 'C' } });
  assert.equal(c.out, utf8.out);
});

test('on a terminal a claim says how to go on', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  const { out } = await p.tty('"$dibs" claim');
  assert.match(out, /claimed .*1.* 'a' until /);
  assert.match(out, /then: dibs done 1, dibs fail 1 or dibs release 1/);
});

test('times are relative to now', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a', '--run-after', '+90m');
  const { out } = await p.dibs('task', 'show', '1');
  assert.match(out, /created +now$/m);
  assert.match(out, /run after +in 1h$/m);
});

test('output that cannot be written is an error, except to a reader who has left', async (t) => {
  const p = await place(t);
  for (let i = 0; i < 3; i++) await p.dibs('task', 'add', 'x'.repeat(1000));
  const full = await p.sh('"$dibs" task list > /dev/full');
  assert.equal(full.code, 1);
  assert.match(full.err, /^dibs: cannot write to standard output: /);
  const closed = await p.sh('"$dibs" task list >&-');
  assert.equal(closed.code, 1);
  assert.match(closed.err, /cannot write/);
  const gone = await p.sh('{ "$dibs" task list; echo "code $?" >&2; } | true');
  assert.equal(gone.err, 'code 0\n');
  assert.equal((await p.dibs('doctor', '--deep')).code, 0, 'the store is whole');
});

test('closed standard streams do not end up in the store', async (t) => {
  const p = await place(t);
  const { code } = await p.sh('"$dibs" task add quiet <&- >&- 2>&-');
  assert.equal(code, 1, 'the output was lost');
  assert.equal((await p.dibs('doctor', '--deep')).code, 0);
  assert.match((await p.dibs('task', 'list')).out, /quiet/);
});
