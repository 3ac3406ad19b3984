// SPDX-License-Identifier: MIT
// What a command is given, and what becomes of its task by the way it ends.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { drained, history, house, lines, runner, shell, show, stop, text, until }
  from './lib/run.mjs';

test('exit 0 completes the task, with what it printed as the result', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { code, err } = await drained(h, [], 'echo hello; echo aside >&2');
  assert.equal(code, 0, err);
  const task = await show(h, id);
  assert.equal(task.status, 'completed');
  assert.deepEqual(task.result, { exitCode: 0, output: 'hello\n' });
  assert.match(err, new RegExp(`${id} 'a task': started as process \\d+ \\(attempt 1\\)`));
  assert.match(err, new RegExp(`${id}: completed after`));
});

test('any other exit code fails it, with the last line of stderr as the reason', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  const { code } = await drained(h, [], 'echo out; echo first >&2; echo "no disk" >&2; exit 3');
  assert.equal(code, 1);
  const task = await show(h, id);
  assert.equal(task.status, 'failed');
  assert.equal(task.error, 'exit code 3: no disk');
  assert.deepEqual(task.result, { exitCode: 3, output: 'out\n' });
});

test('death by a signal fails it, and the signal is named', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  await drained(h, [], 'kill -SEGV $$');
  const task = await show(h, id);
  assert.equal(task.error, 'killed by signal SIGSEGV');
  assert.deepEqual(task.result, { signal: 'SIGSEGV', output: '' });
});

test('exit 75 gives it back: the attempt does not count', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  const once = await shell(h, ['--once'], 'exit 75').ended;
  assert.equal(once.code, 0, once.err);
  const task = await show(h, id);
  assert.equal(task.status, 'open');
  assert.equal(task.attempts, 0);
  assert.equal((await history(h, id)).attempts[0].endReason, 'given_back');
});

test('work that is given back is not taken again at once, again and again', async (t) => {
  const h = await house(t);
  await h.task({ maxAttempts: 0 });
  const running = shell(h, [], 'date +%s%3N >>"$dir/times"; exit 75');
  await until('it was tried three times', () => lines(h, 'times').length >= 3);
  await stop(running);
  const [first, second, third] = lines(h, 'times').map(Number);
  assert.ok(second - first >= 900 && third - second >= 1900, text(h, 'times'));
});

test('the task is on standard input as JSON, and in the environment', async (t) => {
  const h = await house(t);
  const id = await h.task({ title: 'paint "it" $red', type: 'chore', params: { wall: [1, 2] },
    description: 'at length', project: 'home', metadata: { k: 1 } });
  const { err } = await drained(h, ['--project', 'home'],
    'cat >"$dir/in"; env -0 >"$dir/env"; "$dibs" progress "$DIBS_TASK_ID" --percent 9');
  const given = JSON.parse(text(h, 'in'));
  const env = Object.fromEntries(text(h, 'env').split('\0').filter((e) => e !== '')
    .map((e) => [e.slice(0, e.indexOf('=')), e.slice(e.indexOf('=') + 1)]));
  assert.equal(given.id, id);
  assert.equal(given.title, 'paint "it" $red');
  assert.deepEqual(given.params, { wall: [1, 2] });
  assert.deepEqual(given.metadata, { k: 1 });
  assert.equal(given.status, 'in_progress');
  assert.equal(env.DIBS_TASK_ID, id);
  assert.equal(env.DIBS_TOKEN, String(given.claim.token));
  assert.equal(env.DIBS_SESSION, given.claim.sessionId);
  assert.equal(env.DIBS_TYPE, 'chore');
  assert.equal(env.DIBS_TITLE, 'paint "it" $red');
  assert.deepEqual(JSON.parse(env.DIBS_PARAMS), { wall: [1, 2] });
  assert.equal(env.DIBS_ATTEMPT, '1');
  assert.equal(env.DIBS_PROJECT, 'home');
  assert.equal(env.DIBS_TRIGGER, 'pool_task_claimed');
  assert.equal(env.DIBS_DATA, h.data);
  assert.equal(env.DIBS_SOCKET, join(h.data, 'dibs.sock'));
  assert.equal('DIBS_CHECKPOINT' in env, false);
  // the dibs command inside was the same session on the same store
  assert.equal((await history(h, id)).attempts[0].progress.percent, 9, err);
});

test('behind a URL the command is told the URL', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { err, code } = await drained(h, [],
    'env >"$dir/env"; "$dibs" progress "$DIBS_TASK_ID" --percent 8', { url: h.url });
  assert.equal(code, 0, err);
  assert.match(text(h, 'env'), new RegExp(`^DIBS_URL=${h.url}$`, 'm'));
  assert.doesNotMatch(text(h, 'env'), /^DIBS_DATA=/m);
  assert.equal((await history(h, id)).attempts[0].progress.percent, 8);
  const log = join(h.dir, '.local/state/dibs/logs', `${id}-1.log`);
  assert.match(readFileSync(log, 'utf8'), /noted/);
});

test('a command that reads nothing and closes all its streams does its work', async (t) => {
  const h = await house(t);
  const id = await h.task({ params: { long: 'x'.repeat(200_000) } });
  const { code, err } = await drained(h, [], 'exec <&- >&- 2>&- 3>&-; exit 0');
  assert.equal(code, 0, err);
  assert.deepEqual((await show(h, id)).result, { exitCode: 0, output: '' });
});

test('what is too long for a variable is still on standard input', async (t) => {
  const h = await house(t);
  const long = 'x'.repeat(200_000);
  await h.task({ params: { long } });
  const { code, err } = await drained(h, [], 'cat >"$dir/in"; test -z "$DIBS_PARAMS"');
  assert.equal(code, 0, err);
  assert.equal(JSON.parse(text(h, 'in')).params.long, long);
});

test('all of stdout as one JSON object is the result itself', async (t) => {
  const h = await house(t);
  const cases = [[`echo '{"answer": 42}'`, { answer: 42 }],
    [`printf '\\n {"a":\\n 1}\\n\\n'`, { a: 1 }],
    [`echo '{"a": 1}'; echo more`, { exitCode: 0, output: '{"a": 1}\nmore\n' }],
    [`echo '[1]'`, { exitCode: 0, output: '[1]\n' }],
    [`echo '{"a": '`, { exitCode: 0, output: '{"a": \n' }]];
  for (const [script, result] of cases) {
    const id = await h.task();
    await drained(h, [], script);
    assert.deepEqual((await show(h, id)).result, result, script);
  }
});

test('of long output the last 8 KiB are the result, without half a character', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await drained(h, [], `node -e 'process.stdout.write("ä".repeat(20000) + "x")'`);
  const { output } = (await show(h, id)).result;
  assert.equal(output, 'ä'.repeat(4095) + 'x');
});

test('bytes that are no text do not spoil the result', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await drained(h, [], `printf 'a\\377b\\000c'; printf 'bad \\377 byte' >&2; exit 1`);
  const task = await show(h, id);
  assert.equal(task.result.output, 'a\ufffdb\ufffdc');
  assert.equal(task.error, 'exit code 1: bad \ufffd byte');
});

test('all output is in a log named after task and token', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await drained(h, ['--log-dir', join(h.dir, 'a/b')], 'echo out; echo err >&2');
  const log = readFileSync(join(h.dir, 'a/b', `${id}-1.log`), 'utf8');
  assert.deepEqual(log.trim().split('\n').sort(), ['err', 'out']);
});

test('a log that cannot be written costs the log, not the work', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { err } = await drained(h, ['--log-dir', '/proc/nowhere'], 'echo fine');
  assert.match(err, /no log: cannot write '\/proc\/nowhere/);
  assert.equal((await show(h, id)).result.output, 'fine\n');
});

test('arguments go to the command as they are; a shell is used only with --shell', async (t) => {
  const h = await house(t);
  const plain = await h.task();
  await runner(h, ['--once', '--', 'printf', '%s|', '$HOME', '; exit 3', '{{title}}']).ended;
  assert.equal((await show(h, plain)).result.output, '$HOME|; exit 3|{{title}}|');
  const inShell = await h.task();
  await runner(h, ['--once', '--shell', '--', 'echo $((6 * 7)) | tr 4 5']).ended;
  assert.equal((await show(h, inShell)).result.output, '52\n');
});

test('a command that cannot be run gives the task back and ends the runner', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  const missing = await runner(h, ['--', 'no-such-command-here']).ended;
  assert.equal(missing.code, 127);
  assert.match(missing.err, /cannot run 'no-such-command-here': No such file/);
  assert.equal((await runner(h, ['--', '/etc']).ended).code, 126);
  const task = await show(h, id);
  assert.equal(task.status, 'open');
  assert.equal(task.attempts, 0);
});

test('what makes no sense is refused before anything is claimed', async (t) => {
  const h = await house(t);
  const id = await h.task();
  for (const [args, reason, env] of [
    [[], /no command to run/],
    [['--max', '0', '--', 'true'], /--max must be from 1 to 1000/],
    [['--', 'true'], /MAX_CONCURRENT_TASKS is not a number/, { MAX_CONCURRENT_TASKS: 'x' }],
    [['--', 'true'], /MAX_CONCURRENT_TASKS must be from/, { MAX_CONCURRENT_TASKS: '-1' }],
    [['--shell', '--', 'true', 'x'], /--shell takes one line/],
    [['--once', '--drain-when-empty', '--', 'true'], /not both/],
    [['--time-limit', '0', '--', 'true'], /--time-limit must be more than 0/],
    [['--ttl', '0', '--', 'true'], /--ttl must be more than 0/],
    [['--', 'echo', '{{prompt}}'], /no --prompt FILE/],
    [['--prompt', 'nowhere', '--', 'true'], /cannot read 'nowhere'/],
  ]) {
    const { code, err } = await runner(h, args, { env }).ended;
    assert.equal(code, 2, err);
    assert.match(err, reason);
  }
  const tooShort = await runner(h, ['--ttl', '1ms', '--', 'true']).ended;
  assert.equal(tooShort.code, 2, tooShort.err);
  assert.match(tooShort.err, /ttl/);
  assert.equal((await show(h, id)).status, 'open');
});

test('only tasks of the wanted types and the wanted project are taken', async (t) => {
  const h = await house(t);
  await h.task({ title: 'a', type: 'x' });
  await h.task({ title: 'b', type: 'y' });
  await h.task({ title: 'c', type: 'z' });
  await h.task({ title: 'd', type: 'x', project: 'other' });
  const echo = 'echo "$DIBS_TITLE" >>"$dir/done"';
  await drained(h, ['--type', 'x', '--type', 'y'], echo);
  assert.deepEqual(lines(h, 'done').sort(), ['a', 'b']);
  await drained(h, ['--project', 'other'], echo);
  assert.deepEqual(lines(h, 'done').sort(), ['a', 'b', 'd']);
});

test('with --json the news are lines of JSON, with --quiet only trouble is told', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await h.task({ title: 'bad' });
  const script = 'test "$DIBS_TITLE" != bad';
  const json = await drained(h, ['--json'], script);
  const news = json.out.trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(json.err, '');
  assert.deepEqual(news.map((n) => n.event),
    ['ready', 'started', 'ended', 'started', 'ended']);
  assert.equal(news[2].taskId, id);
  assert.equal(news[2].outcome, 'completed');
  assert.equal(news[4].exitCode, 1);
  await h.task({ type: 'q' });
  const failing = await h.task({ title: 'bad', type: 'q', maxAttempts: 1 });
  const quiet = await drained(h, ['--quiet', '--type', 'q'], script);
  assert.match(quiet.err, new RegExp(`^dibs: ${failing}: failed after .*: exit code 1\n$`));
});

test('a command that reports by itself is left alone', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { code, err } = await drained(h, [],
    '"$dibs" done "$DIBS_TASK_ID" --result 7 >/dev/null; echo mine');
  assert.equal(code, 0, err);
  const task = await show(h, id);
  assert.equal(task.status, 'completed');
  assert.equal(task.result, 7);
});
