// SPDX-License-Identifier: MIT
// Lines on descriptor 3: progress while the command runs, and a checkpoint for the next attempt.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { appeared, drained, history, house, lines, put, shell, short, show, stop, text, until }
  from './lib/run.mjs';

const wait = 'while [ ! -e "$dir/go" ]; do sleep 0.02; done';

test('progress is told while the command runs, and the lease is renewed by it', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const running = shell(h, [], `echo '42% half of it' >&3; ${wait}`);
  const { progress } = await until('progress is told', async () => {
    const { claim } = await show(h, id);
    return claim?.progress ? claim : null;
  });
  assert.deepEqual(progress, { percent: 42, message: 'half of it' });
  put(h, 'go');
  await until('it is done', async () => (await show(h, id)).status === 'completed');
  await stop(running);
});

test('each kind of line says what it means, and the last word counts', async (t) => {
  const h = await house(t);
  const cases = [
    ['echo reading >&3', { message: 'reading' }],
    ['echo 100% >&3', { percent: 100 }],
    ['echo " 7%   blanks  " >&3', { percent: 7, message: 'blanks' }],
    ['echo 1% a >&3; echo b >&3', { percent: 1, message: 'b' }],
    ['echo 999% much >&3', { percent: 100, message: 'much' }],
    ['echo 1234% >&3', { message: '1234%' }],
    [`echo '{"percent": 12.7, "message": "m"}' >&3`, { percent: 12, message: 'm' }],
    [`echo '{"other": 1}' >&3`, { message: '{"other": 1}' }],
    [`echo '{"percent": ' >&3`, { message: '{"percent":' }],
    ['printf "no line end" >&3', { message: 'no line end' }],
    ['printf "\\n\\n  \\n" >&3', undefined],
  ];
  for (const [script, expected] of cases) {
    const id = await h.task();
    await drained(h, [], script);
    assert.deepEqual((await history(h, id)).attempts[0].progress, expected, script);
  }
});

test('a very long line is cut, and a flood is told in a few reports', async (t) => {
  const h = await house(t);
  const long = await h.task();
  await drained(h, [], 'head -c 3000000 /dev/zero | tr "\\0" x >&3; echo >&3');
  assert.equal((await history(h, long)).attempts[0].progress.message, 'x'.repeat(4096));
  const flood = await h.task();
  await drained(h, [], 'seq 1 20000 >&3');
  const { events, attempts } = await history(h, flood);
  assert.equal(attempts[0].progress.message, '20000');
  assert.ok(events.filter((e) => e.type === 'task:progress').length <= 10);
});

test('a checkpoint is given to the next attempt', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const script = `cat >"$dir/in$DIBS_ATTEMPT"; echo "$DIBS_CHECKPOINT" >>"$dir/seen"
    test -n "$DIBS_CHECKPOINT" && exit
    echo '{"percent": 50, "checkpoint": {"at": 17}}' >&3; exit 1`;
  const running = shell(h, [], script);
  await until('it is done', async () => (await show(h, id)).status === 'completed');
  await stop(running);
  assert.deepEqual(text(h, 'seen'), '\n{"at":17}\n');
  assert.deepEqual(JSON.parse(text(h, 'in2')).claim.checkpoint, { at: 17 });
});

test('the checkpoint of a command that is killed is there for the next one', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const running = shell(h, ['--time-limit', '1s'], `echo "$DIBS_CHECKPOINT" >>"$dir/seen"
    test -n "$DIBS_CHECKPOINT" && exit 0
    echo '{"checkpoint": "so far"}' >&3; touch "$dir/began"; sleep 300`);
  await appeared(h, 'began');
  await until('it is done', async () => (await show(h, id)).status === 'completed');
  await stop(running);
  assert.deepEqual(lines(h, 'seen'), ['"so far"']);
});

test('a checkpoint that the store refuses does not harm the work', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const script = `node -e 'const fs = require("fs");
    fs.writeSync(3, JSON.stringify({ checkpoint: "x".repeat(262000) }) + "\\n");
    fs.writeSync(3, "still here\\n");'`;
  const { code, err } = await drained(h, [], script);
  assert.equal(code, 0, err);
  assert.equal((await show(h, id)).status, 'completed');
});

test('a checkpoint that is too large costs the checkpoint, not the progress', async (t) => {
  const h = await house(t);
  // less than 256 KiB as it is printed and more as it is written again
  const big = (tail) => `node -e 'require("fs").writeSync(3,
    "{\\"percent\\": 5, \\"checkpoint\\": [" +
    Array(45000).fill("1e99").join() + "]}\\n")'; ${tail}`;
  const first = await h.task();
  const running = shell(h, [], big(`while [ ! -e "$dir/go" ]; do echo later >&3; sleep 0.1; done`));
  const { progress } = await until('the rest is told', async () => {
    const { claim } = await show(h, first);
    return claim?.progress?.message === 'later' ? claim : null;
  });
  assert.deepEqual(progress, { percent: 5, message: 'later' });
  put(h, 'go');
  await until('it is done', async () => (await show(h, first)).status === 'completed');
  await stop(running);
  const last = await h.task(); // it comes with the last words of a command
  await drained(h, [], big('true'));
  assert.deepEqual((await history(h, last)).attempts[0].progress, { percent: 5 });
});
