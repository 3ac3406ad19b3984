// SPDX-License-Identifier: MIT
// --json: one line of valid JSON on standard output and nothing on standard error, for every
// command, whether it succeeds or is refused; and with the same exit code as without.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Place, place } from './lib/dibs.mjs';

async function answer(p, args) {
  const { code, out, err } = await p.run([...args, '--json']);
  assert.equal(err, '', args.join(' '));
  assert.match(out, /^\{[^\n]*\}\n$/, args.join(' '));
  return { code, json: JSON.parse(out) };
}

test('every command that succeeds answers with one JSON object', async (t) => {
  const p = new Place(t);
  writeFileSync(join(p.dir, 'tasks'), '{"title":"imported"}\n');
  const asked = [['init'], ['config'], ['doctor'], ['doctor', '--deep'], ['backup', 'b.db'],
    ['task', 'add', 'a'], ['task', 'add', 'b'], ['task', 'list'], ['task', 'show', '1'],
    ['task', 'show', '1', '--history'], ['task', 'edit', '1', '--title', 'A'],
    ['task', 'import', 'tasks'], ['session', 'register'], ['session', 'list'], ['session', 'show'],
    ['session', 'heartbeat'], ['session', 'resume'], ['session', 'summary'], ['claim'],
    ['claim', '2'], ['heartbeat'], ['heartbeat', '1'], ['progress', '1', '--percent', '3'],
    ['in-flight'], ['done', '1'], ['fail', '2'], ['claim', '3'], ['release', '3'], ['block', '3'],
    ['unblock', '3'], ['cancel', '3'], ['reopen', '3'], ['lock', 'take', 'x'], ['lock', 'list'],
    ['lock', 'heartbeat', 'x'], ['lock', 'release', 'x'], ['stats'], ['scores'], ['cleanup'],
    ['cleanup', '--type', 'orphaned'], ['events'], ['top'], ['key', 'add', 'k', '--role', 'read'],
    ['key', 'list'], ['agent', 'register', 'boss', '--lead'], ['agent', 'register', 'ann'],
    ['agent', 'list'], ['agent', 'show', 'ann'], ['agent', 'scores'],
    ['task', 'add', 'o', '--id', 'o'], ['offer', 'o', 'ann'], ['reject', 'o', '--agent', 'ann'],
    ['offer', 'o', 'ann'],
    ['accept', 'o', '--agent', 'ann'], ['task', 'add', 'p', '--id', 'p'], ['assign', 'p', 'ann'],
    ['inbox', 'add', 'a'], ['inbox', 'add', 'b'], ['inbox', 'add', 'c'], ['inbox', 'add', 'd'],
    ['inbox', 'list'], ['inbox', 'show', '1'], ['inbox', 'claim', '--agent', 'boss'],
    ['inbox', 'read', '1'], ['inbox', 'respond', '2', 'x'],
    ['inbox', 'delegate', '3', '--task', 'o'], ['inbox', 'release', '4'],
    ['channel', 'create', 'c'], ['channel', 'list'],
    ['channel', 'post', 'c', '@boss', '--as', 'ann'], ['channel', 'messages', 'c'],
    ['mentions', 'claim', '--agent', 'boss'], ['mentions', 'release', '--agent', 'boss'],
    ['channel', 'read', 'c', '--agent', 'boss'], ['poll', '--agent', 'boss'], ['notices', 'ack'],
    ['notices', 'release'],
    ['session', 'end'], ['help'], ['version']];
  for (const args of asked) {
    const { code, json } = await answer(p, args);
    assert.equal(code, 0, args.join(' '));
    assert.equal(json.success, true, args.join(' '));
  }
  const [{ id }] = (await answer(p, ['key', 'list'])).json.keys;
  assert.equal((await answer(p, ['key', 'revoke', id])).json.success, true);
  const { out } = await p.dibs('help', '--commands');
  const names = out.trimEnd().split('\n').map((line) => line.split('\t')[0]);
  const covered = asked.flatMap((args) => [args[0], args.slice(0, 2).join(' ')]);
  // the last three go on or print what a program says: see watch.mjs, daemon.mjs, test/runner
  covered.push('key revoke', 'watch', 'serve', 'run');
  for (const name of names) {
    assert.ok(name === '(every)' || covered.includes(name), `'${name}' is not tried here`);
  }
});

test('every refusal answers with its code, and exits as it does for people', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  await p.as('ann', 'claim', '1');
  await p.dibs('session', 'register');
  for (const [args, error, exit] of [
    [['claim'], 'NOTHING_TO_CLAIM', 3],
    [['claim', '1'], 'TASK_ALREADY_CLAIMED', 4],
    [['done', '1'], 'NOT_CLAIM_OWNER', 5],
    [['lock', 'release', 'x'], 'LOCK_NOT_HELD', 5],
    [['task', 'show', '9'], 'TASK_NOT_FOUND', 6],
    [['session', 'show', 'nobody'], 'SESSION_NOT_FOUND', 6],
    [['reopen', '1'], 'ILLEGAL_TRANSITION', 7],
    [['task', 'add', 'b', '--id', '1'], 'TASK_EXISTS', 8],
    [['task', 'edit', '1', '--title', 'x', '--version', '77'], 'VERSION_CONFLICT', 8],
    [['task', 'add', 'c', '--priority', '999'], 'INVALID_REQUEST', 2],
    [['task', 'add', 'c', '--id', '??'], 'INVALID_REQUEST', 2],
    [['stats', '--data', '/nowhere'], 'STORE_NOT_FOUND', 15]]) {
    const { code, json } = await answer(p, args);
    assert.equal(json.success, false);
    assert.equal(json.error, error, args.join(' '));
    assert.equal(code, exit, args.join(' '));
    assert.equal(typeof json.message, 'string');
    assert.equal((await p.dibs(...args)).code, exit);
  }
});
