// SPDX-License-Identifier: MIT
// test-timeout: 240
// Commands that behave badly, and runners that are killed.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { appeared, children, drained, gone, house, lives, program, reached, runner, Running, shell,
  short, show, stop, text, until } from './lib/run.mjs';

const OUTPUT_MB = Number(process.env.DIBS_TEST_OUTPUT_MB ?? 64); // 1024 to see a gigabyte through
const MEMORY_KB = process.env.DIBS_SANITIZED === '1' ? Infinity : 60_000;

/** A number of /proc/PID/status, in kB. */
const memory = (pid, field) =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`))[1]);

test('a command that hangs is stopped at its time limit, and the attempt fails', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  const { code, err } = await drained(h, ['--time-limit', '300ms'],
    'echo $$ >"$dir/pid"; echo so far; exec sleep 300');
  assert.equal(code, 1);
  const task = await show(h, id);
  assert.equal(task.status, 'failed');
  assert.equal(task.error, 'time limit of 300ms');
  assert.deepEqual(task.result, { signal: 'SIGTERM', output: 'so far\n' });
  assert.match(err, /stopping it: time limit of 300ms/);
  assert.equal(lives(Number(text(h, 'pid'))), false);
});

test('a command that ends well when it is stopped at its limit has failed', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  await drained(h, ['--time-limit', '300ms'],
    'trap "exit 0" TERM; while :; do sleep 0.02; done');
  assert.match((await show(h, id)).error, /^time limit of 300ms/);
});

test('a command that ignores SIGTERM is killed after the grace, with its children', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  await drained(h, ['--time-limit', '300ms', '--grace', '300ms'],
    `trap "" TERM; sleep 300 & echo $! >"$dir/child"; echo $$ >"$dir/pid"
     while :; do sleep 0.02; done`);
  const task = await show(h, id);
  assert.match(task.error, /^time limit of 300ms/);
  assert.equal(task.result.signal, 'SIGKILL');
  assert.equal(lives(Number(text(h, 'pid'))), false);
  assert.equal(lives(Number(text(h, 'child'))), false);
});

test('a command that is stopped by SIGSTOP is ended too', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  await drained(h, ['--time-limit', '300ms'], 'kill -STOP $$; sleep 300');
  assert.equal((await show(h, id)).result.signal, 'SIGTERM');
});

test('what a command leaves behind is ended, and does not change its outcome', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { code, err } = await drained(h, [],
    'sleep 300 & echo $! >"$dir/child"; (sleep 300; echo never) & echo done; exit 0');
  assert.equal(code, 0, err);
  assert.deepEqual((await show(h, id)).result, { exitCode: 0, output: 'done\n' });
  assert.equal(lives(Number(text(h, 'child'))), false);
});

test('children that ignore SIGTERM are killed after the grace', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await drained(h, ['--grace', '300ms'],
    `(trap "" TERM; echo up >"$dir/up"; while :; do sleep 0.02; done) & echo $! >"$dir/child"
     while [ ! -e "$dir/up" ]; do sleep 0.02; done; echo done`);
  assert.deepEqual((await show(h, id)).result, { exitCode: 0, output: 'done\n' });
  await gone(Number(text(h, 'child')));
});

test('a process that left the group and holds the streams open holds nobody up', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const began = Date.now();
  await drained(h, [],
    'setsid sh -c "echo \\$\\$ >\\"$dir/free\\"; exec sleep 300" & while [ ! -s "$dir/free" ]; ' +
    'do sleep 0.02; done; echo done');
  assert.deepEqual((await show(h, id)).result, { exitCode: 0, output: 'done\n' });
  assert.ok(Date.now() - began < 9000);
  process.kill(Number(text(h, 'free')), 'SIGKILL');
});

test(`${OUTPUT_MB} MB of output neither hold up the command nor fill memory or disk`, async (t) => {
  const h = await house(t);
  const id = await h.task();
  const running = shell(h, [], `yes 0123456789abcde | head -c ${OUTPUT_MB}M
    head -c ${OUTPUT_MB}M /dev/zero >&2; echo the end`);
  await reached(h, id, 'completed');
  assert.ok(memory(running.child.pid, 'VmHWM') < MEMORY_KB, 'memory');
  await stop(running);
  const { output } = (await show(h, id)).result;
  assert.equal(Buffer.byteLength(output), 8192);
  assert.match(output, /0123456789abcde\nthe end\n$/);
  const log = join(h.data, 'logs', `${id}-1.log`);
  assert.ok(statSync(log).size < 17 * 1024 * 1024);
  const end = readFileSync(log, 'latin1').slice(16 * 1024 * 1024);
  assert.match(end, /^\n\[dibs: the log is full: \d+ bytes are left out here\]\n/);
  assert.match(end, /the end\n$/);
});

test('when the runner is killed its task is free and its processes are gone at once', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const running = shell(h, [],
    'trap "" TERM; sleep 300 & echo $! >"$dir/child"; echo $$ >"$dir/pid"; touch "$dir/up"; wait');
  await appeared(h, 'up');
  assert.equal((await show(h, id)).status, 'in_progress');
  running.kill('SIGKILL');
  const began = Date.now();
  await reached(h, id, 'open');
  await gone(Number(text(h, 'pid')));
  await gone(Number(text(h, 'child')));
  assert.ok(Date.now() - began < 1500, `${Date.now() - began} ms`);
});

test('after 200 tasks there is no zombie and no open file more than before', async (t) => {
  const h = await house(t);
  const running = runner(h, ['--max', '4', '--', 'sh', '-c',
    'sleep 300 & echo x; echo 5% >&3; exit $(($DIBS_TASK_ID % 3))']);
  const files = () => readdirSync(`/proc/${running.child.pid}/fd`).length;
  const idle = () => h.ok('GET', '/api/tasks/in-flight').then((a) => a.inFlight.length === 0);
  const attempts = async () => (await h.ok('GET', '/api/tasks?limit=1000')).tasks
    .filter((task) => task.attempts > 0).length;
  await h.task();
  await until('the first one is over', async () => await attempts() === 1 && await idle());
  const before = await until('nobody is left', () =>
    children(running.child.pid).length === 1 && files());
  await h.ok('POST', '/api/tasks', Array.from({ length: 200 }, () =>
    ({ title: 'one of many', maxAttempts: 1 })));
  await until('all are over', async () => await attempts() === 201 && await idle());
  // the keeper is the one that stays
  await until('nobody is left', () => children(running.child.pid).length === 1);
  await until('every file is closed', () => files() <= before);
  const { code } = await stop(running);
  assert.equal(code, 0);
});

test('a command inherits nothing but its four streams', async (t) => {
  const h = await house(t);
  const id = await h.task();
  await drained(h, [], 'exec ls /proc/self/fd');
  // ls itself has opened the folder
  assert.deepEqual((await show(h, id)).result.output.trim().split('\n'), ['0', '1', '2', '3', '4']);
});

test('a command has a session and a group of its own, and no signal is blocked', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const look = 'cut -d" " -f 1,5,6 /proc/$$/stat; grep -E "^Sig(Blk|Ign)" /proc/self/status';
  await drained(h, [], look);
  const [ids, blocked, ignored] = (await show(h, id)).result.output.trim().split('\n');
  assert.equal(new Set(ids.trim().split(/\s+/)).size, 1);
  assert.match(blocked, /^SigBlk:\s+0+$/);
  assert.match(ignored, /^SigIgn:\s+0+$/);
});

test('a command inherits no ignored signal, and nohup holds', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const running = new Running('sh', ['-c', `trap "" HUP INT QUIT USR1 ALRM; exec "$0" "$@"`,
    program, '--data', h.data, 'run', '--', 'grep', '^SigIgn', '/proc/self/status'],
  { cwd: h.dir, timeout: 60_000 });
  h.started.push(running);
  await reached(h, id, 'completed');
  assert.match((await show(h, id)).result.output, /^SigIgn:\s+0+$/m);
  running.kill('SIGHUP');
  const next = await h.task();
  await reached(h, next, 'completed');
  const { code } = await stop(running);
  assert.equal(code, 0);
});

test('a keeper that is killed is replaced, and no command suffers', async (t) => {
  const h = await house(t);
  const name = (pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  const keeper = () => children(running.child.pid)
    .find((pid) => lives(pid) && name(pid) === 'dibs-keeper');
  const first = await h.task();
  const running = shell(h, ['--max', '2'], `test $DIBS_TASK_ID = ${first} || exit 0
    sleep 300 & echo $! >"$dir/child"; touch "$dir/up"; wait`);
  await appeared(h, 'up');
  for (let i = 0; i < 3; i++) {
    const killed = await until('there is a keeper', keeper);
    process.kill(killed, 'SIGKILL');
    const next = await h.task({ maxAttempts: 1 });
    const task = await until('it is over', async () => {
      const seen = await show(h, next);
      return ['completed', 'failed'].includes(seen.status) ? seen : null;
    });
    assert.equal(task.status, 'completed', task.error);
    await until('there is another one', () => ![undefined, killed].includes(keeper()));
  }
  running.kill('SIGKILL');
  await gone(Number(text(h, 'child'))); // the new one knows the groups that were there
});
