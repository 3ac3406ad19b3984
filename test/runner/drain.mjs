// SPDX-License-Identifier: MIT
// How a runner ends: by signals, after one task, when there is nothing left; and how many commands
// it runs at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { appeared, children, gone, has, house, lines, put, reached, runner, shell, show, stop, text,
  until } from './lib/run.mjs';

const wait = 'while [ ! -e "$dir/go" ]; do sleep 0.02; done';

test('an idle runner ends at once when it is told to, and its session with it', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    const h = await house(t);
    const running = shell(h, [], 'true');
    await until('it waits', () => running.err.includes('waiting for work'));
    const session = /as (run-\S+),/.exec(running.err)[1];
    const began = Date.now();
    const { code, err } = await stop(running, signal);
    assert.equal(code, 0, err);
    assert.ok(Date.now() - began < 5000, `${Date.now() - began} ms`);
    assert.equal((await h.ok('GET', `/api/sessions/${session}`)).session.status, 'ended');
    assert.doesNotMatch(err, /cannot|unreachable|trying again/);
  }
});

test('SIGTERM lets what runs end, and takes nothing new', async (t) => {
  const h = await house(t);
  const first = await h.task();
  const second = await h.task();
  const running = shell(h, [], `touch "$dir/up$DIBS_TASK_ID"; ${wait}`);
  await appeared(h, `up${first}`);
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new; 1 still running'));
  put(h, 'go');
  const { code, err } = await running.ended;
  assert.equal(code, 0, err);
  assert.equal((await show(h, first)).status, 'completed');
  assert.equal((await show(h, second)).status, 'open');
  assert.equal(has(h, `up${second}`), false);
});

test('a second signal stops the commands, gives their tasks back and leaves', async (t) => {
  const h = await house(t);
  const ids = [await h.task({ maxAttempts: 1 }), await h.task({ maxAttempts: 1 })];
  const running = shell(h, ['--max', '2', '--grace', '500ms'],
    `test $DIBS_TASK_ID = ${ids[1]} && trap "" TERM
     echo $$ >"$dir/pid$DIBS_TASK_ID"; touch "$dir/up$DIBS_TASK_ID"
     while :; do sleep 0.02; done`);
  for (const id of ids) await appeared(h, `up${id}`);
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new'));
  const { code, err } = await stop(running);
  assert.equal(code, 128 + 15, err);
  for (const id of ids) {
    await gone(Number(text(h, `pid${id}`)));
    const task = await show(h, id);
    assert.equal(task.status, 'open');
    assert.equal(task.attempts, 0);
  }
});

test('what ends well in the last moment is completed', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const running = shell(h, [],
    'trap "echo saved; exit 0" TERM; touch "$dir/up"; while :; do sleep 0.02; done');
  await appeared(h, 'up');
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new'));
  await stop(running);
  const task = await show(h, id);
  assert.equal(task.status, 'completed');
  assert.deepEqual(task.result, { exitCode: 0, output: 'saved\n' });
});

test('--once waits for one task, and ends with how it went', async (t) => {
  const h = await house(t);
  const good = shell(h, ['--once', '--max', '5'], 'exit 0');
  await until('it waits', () => good.err.includes('waiting for work'));
  const ids = (await h.ok('POST', '/api/tasks', [{ title: 'a' }, { title: 'b' }])).tasks
    .map((task) => task.id);
  assert.equal((await good.ended).code, 0);
  assert.equal((await show(h, ids[0])).status, 'completed');
  assert.equal((await show(h, ids[1])).status, 'open');
  assert.equal((await shell(h, ['--once'], 'exit 9').ended).code, 1);
});

test('--drain-when-empty also does what its own commands add', async (t) => {
  const h = await house(t);
  await h.task({ title: '3' });
  const { code, err } = await shell(h, ['--drain-when-empty', '--max', '2'],
    `echo "$DIBS_TITLE" >>"$dir/done"
     test "$DIBS_TITLE" = 0 || "$dibs" task add $(($DIBS_TITLE - 1))`).ended;
  assert.equal(code, 0, err);
  assert.deepEqual(lines(h, 'done'), ['3', '2', '1', '0']);
});

test('so many commands at once, and never more', async (t) => {
  const h = await house(t);
  for (const [options, env, most] of [[[], {}, 1], [[], { MAX_CONCURRENT_TASKS: '3' }, 3],
    [['--max', '2'], { MAX_CONCURRENT_TASKS: '3' }, 2]]) {
    const name = `most${most}`;
    const ids = (await h.ok('POST', '/api/tasks', Array.from({ length: most + 3 }, () =>
      ({ title: 'x', type: name })))).tasks.map((task) => task.id);
    const running = shell(h, [...options, '--type', name],
      `mkdir -p "$dir/${name}/$DIBS_TASK_ID"; ls "$dir/${name}" | wc -l >>"$dir/${name}.counts"
       while [ ! -e "$dir/${name}.go" ]; do sleep 0.02; done; rmdir "$dir/${name}/$DIBS_TASK_ID"`,
      { env });
    await until('all slots are taken', () => lines(h, `${name}.counts`).length >= most);
    assert.equal((await h.ok('GET', '/api/tasks/in-flight')).inFlight.length, most);
    put(h, `${name}.go`);
    for (const id of ids) await reached(h, id, 'completed');
    await stop(running);
    const counts = lines(h, `${name}.counts`).map(Number);
    assert.equal(counts.length, ids.length);
    assert.equal(Math.max(...counts), most);
  }
});

test('several runners share the work, and no task is done twice', async (t) => {
  const h = await house(t);
  const count = 60;
  await h.ok('POST', '/api/tasks', Array.from({ length: count }, () => ({ title: 'x' })));
  const runs = Array.from({ length: 3 }, () =>
    runner(h, ['--drain-when-empty', '--max', '3', '--', 'sh', '-c',
      'echo "$DIBS_TASK_ID" >>"$dir/done"']).ended);
  for (const { code, err } of await Promise.all(runs)) assert.equal(code, 0, err);
  const done = lines(h, 'done');
  assert.equal(done.length, count);
  assert.equal(new Set(done).size, count);
});

test('a waiting runner does not ask again and again', async (t) => {
  const h = await house(t);
  const running = shell(h, [], 'true');
  await until('it waits', () => running.err.includes('waiting for work'));
  const asked = async () => Number(/^dibs_requests_total\{operation="claimNext".*\} (\d+)$/m
    .exec((await h.get('/metrics')).text)?.[1] ?? 0);
  const id = await h.task();
  await reached(h, id, 'completed');
  const began = Date.now();
  await until('two seconds are over', () => Date.now() - began > 2000);
  assert.ok(await asked() <= 2, `${await asked()} requests`);
  assert.equal(children(running.child.pid).length, 1);
  await stop(running);
});
