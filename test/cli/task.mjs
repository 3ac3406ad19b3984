// SPDX-License-Identifier: MIT
// dibs task add, list, show, edit; block, unblock, cancel, reopen.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

test('add prints the id and status, and with --quiet the id alone', async (t) => {
  const p = await place(t);
  const first = await p.dibs('task', 'add', 'paint the fence');
  assert.equal(first.out, "added 1 'paint the fence' (open, priority 50)\n");
  assert.equal((await p.dibs('-q', 'task', 'add', 'second')).out, '2\n');
});

test('every option of add arrives in the task', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'first', '--id', 'dep');
  const { task } = await p.json('task', 'add', 'all of it', '--id=t-1', '--type', 'paint',
    '-p', 'high', '--phase', 'build', '--project', 'house', '-t', 'a', '--tag', 'b',
    '--param', 'n=3', '--param', 'text=hello', '--param', 'list=[1,2]', '--metadata', '{"k":true}',
    '--depends-on', 'dep', '--run-after', '2031-01-31T12:00:00Z', '--max-attempts', '5',
    '--claim-timeout', '45m', '--dedupe-key', 'once', '--description', 'long\ntext');
  assert.equal(task.id, 't-1');
  assert.equal(task.type, 'paint');
  assert.equal(task.priority, 75);
  assert.equal(task.phase, 'build');
  assert.equal(task.project, 'house');
  assert.deepEqual(task.tags, ['a', 'b']);
  assert.deepEqual(task.params, { n: 3, text: 'hello', list: [1, 2] });
  assert.deepEqual(task.metadata, { k: true });
  assert.deepEqual(task.dependsOn, ['dep']);
  assert.equal(task.runAfter, '2031-01-31T12:00:00.000Z');
  assert.equal(task.maxAttempts, 5);
  assert.equal(task.claimTimeoutMs, 45 * 60_000);
  assert.equal(task.description, 'long\ntext');
  assert.equal(task.status, 'blocked');
});

test('--run-after +10m counts from now', async (t) => {
  const p = await place(t);
  const { task } = await p.json('task', 'add', 'later', '--run-after', '+10m');
  const minutes = (Date.parse(task.runAfter) - Date.now()) / 60_000;
  assert.ok(minutes > 9 && minutes < 10.1, task.runAfter);
  assert.equal((await p.dibs('claim')).code, 3);
});

test('--params takes all at once; --assignee assigns', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('task', 'add', 'x', '--assignee', 'ann')).code, 6);
  await p.dibs('agent', 'register', 'ann');
  const { task } = await p.json('task', 'add', 'x', '--params', '{"a":[1]}', '--assignee', 'ann');
  assert.deepEqual(task.params, { a: [1] });
  assert.equal(task.assignee, 'ann');
  assert.equal(task.status, 'assigned');
});

test('a dedupe key gives the task that is there; an idempotency key the same answer', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a', '--dedupe-key', 'k');
  const again = await p.dibs('task', 'add', 'b', '--dedupe-key', 'k');
  assert.match(again.out, /^already there: 1 'a'/);
  const one = await p.json('task', 'add', 'c', '--idempotency-key', 'once');
  const two = await p.json('task', 'add', 'c', '--idempotency-key', 'once');
  assert.deepEqual(one, two);
  const other = await p.dibs('task', 'add', 'other', '--idempotency-key', 'once');
  assert.equal(other.code, 8);
});

test('an id that is taken is exit code 8, a bad value 2, and neither adds anything', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a', '--id', 'x');
  assert.equal((await p.dibs('task', 'add', 'b', '--id', 'x')).code, 8);
  for (const bad of [['--id', 'not an id'], ['--priority', '101'], ['--priority', 'urgent'],
    ['--max-attempts', 'many'], ['--run-after', 'tomorrow'], ['--claim-timeout', '5 parsecs'],
    ['--params', '{'], ['--param', 'novalue'], ['--param', '=1'], ['--depends-on', 'nosuch']]) {
    const { code, err } = await p.dibs('task', 'add', 'b', ...bad);
    assert.ok(code === 2 || code === 6, `${bad}: ${code}`);
    assert.match(err, /^dibs: /);
  }
  assert.equal((await p.json('task', 'list')).tasks.length, 1);
});

test('list shows what is to do in aligned columns, and says when it is empty', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('task', 'list')).out, 'no tasks to do\n');
  await p.dibs('task', 'add', 'short', '--type', 'paint');
  await p.dibs('task', 'add', '\u6c49\u5b57 wide', '--id', 'a-much-longer-id');
  await p.dibs('claim', '1');
  await p.dibs('done', '1');
  assert.doesNotMatch((await p.dibs('task', 'list')).out, /short/);
  const lines = (await p.dibs('task', 'list', '--all')).out.trimEnd().split('\n');
  assert.equal(lines.length, 3);
  assert.match(lines[0], /^ID +STATUS +PRI +TYPE +TITLE +HELD BY +AGE$/);
  const column = lines[0].indexOf('STATUS');
  assert.equal(lines[1].indexOf('completed'), column);
  assert.equal(lines[2].indexOf('open'), column);
  // a character of double width takes two columns, so this line is two characters shorter
  const held = lines[0].indexOf('HELD BY');
  assert.equal(lines[1][held], '-');
  assert.equal(lines[2][held - 2], '-');
  assert.doesNotMatch(lines.join('\n'), / $/m);
});

test('list filters and goes on page by page', async (t) => {
  const p = await place(t);
  for (let i = 1; i <= 5; i++) {
    await p.dibs('task', 'add', `t${i}`, '--type', i % 2 ? 'odd' : 'even', '-t', `n${i}`);
  }
  const ids = async (...args) => (await p.dibs('task', 'list', '-q', ...args)).out.split('\n')
    .filter(Boolean);
  assert.deepEqual(await ids('--type', 'odd'), ['1', '3', '5']);
  assert.deepEqual(await ids('--tag', 'n4'), ['4']);
  assert.deepEqual(await ids('--project', 'other'), []);
  await p.dibs('claim', '2');
  assert.deepEqual(await ids('--session', 'tester'), ['2']);
  assert.deepEqual(await ids('--status', 'in_progress,completed'), ['2']);
  const first = await p.json('task', 'list', '--limit', '2');
  assert.deepEqual(first.tasks.map((x) => x.id), ['1', '2']);
  const page = await p.dibs('task', 'list', '--limit', '2');
  assert.match(page.err, /--cursor /);
  const second = await p.json('task', 'list', '--limit', '2', '--cursor', first.nextCursor);
  assert.deepEqual(second.tasks.map((x) => x.id), ['3', '4']);
  assert.equal((await p.dibs('task', 'list', '--all', '--status', 'open')).code, 2);
  assert.equal((await p.dibs('task', 'list', '--status', 'nonsense')).code, 2);
});

test('DIBS_PROJECT is the project of what is added, listed and claimed', async (t) => {
  const p = await place(t);
  const env = { DIBS_PROJECT: 'web' };
  await p.dibs('task', 'add', 'in default');
  await p.run(['task', 'add', 'in web'], { env });
  assert.equal((await p.run(['task', 'list', '-q'], { env })).out, '2\n');
  assert.equal((await p.run(['claim', '-q'], { env })).out, '2\n');
  assert.equal((await p.run(['claim', '-q'], { env })).code, 3);
});

test('show tells everything of a task, and its history', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'first');
  await p.dibs('task', 'add', 'x', '--depends-on', '1', '--param', 'a=1', '--description', 'D');
  const { out } = await p.dibs('task', 'show', '2');
  assert.match(out, /^2 {2}x {2}blocked$/m);
  assert.match(out, /depends on +1$/m);
  assert.match(out, /waiting on +1$/m);
  assert.match(out, /params +\{"a":1\}$/m);
  assert.match(out, /description +D$/m);
  await p.dibs('claim', '1');
  assert.match((await p.dibs('task', 'show', '1')).out, /held by +tester$/m);
  await p.dibs('done', '1', '--result', '{"ok":true}');
  const history = (await p.dibs('task', 'show', '1', '--history')).out;
  assert.match(history, /task:created/);
  assert.match(history, /task:completed/);
  assert.match(history, /tester .*completed$/m);
  const json = await p.json('task', 'show', '1', '--history');
  assert.equal(json.attempts.length, 1);
});

test('what does not exist is exit code 6, also when it is a word of the routes', async (t) => {
  const p = await place(t);
  for (const id of ['99', 'nosuch', 'in-flight', 'claim', 'claims']) {
    const { code, err } = await p.dibs('task', 'show', id);
    assert.equal(code, 6, id);
    assert.match(err, new RegExp(`^dibs: .*'${id}'`));
    assert.equal((await p.json('task', 'show', id)).error, 'TASK_NOT_FOUND');
  }
});

test('edit changes what is named and keeps the rest', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'old', '--param', 'a=1', '-t', 'x', '--description', 'D');
  assert.match((await p.dibs('task', 'edit', '1', '--title', 'new')).out,
    /^changed 1 'new' \(version 2\)/);
  const { task } = await p.json('task', 'edit', '1', '--param', 'b=2', '-p', '90', '-t', 'y');
  assert.deepEqual(task.params, { a: 1, b: 2 });
  assert.deepEqual(task.tags, ['y']);
  assert.equal(task.priority, 90);
  assert.equal(task.description, 'D');
  const cleared = await p.json('task', 'edit', '1', '--tag', '', '--description', '');
  assert.deepEqual(cleared.task.tags, []);
  assert.equal(cleared.task.description, undefined);
});

test('edit with an old version is exit code 8, with nothing to change 2', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  await p.dibs('task', 'edit', '1', '--title', 'b');
  const { code, err } = await p.dibs('task', 'edit', '1', '--title', 'c', '--version', '1');
  assert.equal(code, 8);
  assert.match(err, /try: dibs task show 1/);
  assert.equal((await p.dibs('task', 'edit', '1')).code, 2);
  assert.equal((await p.dibs('task', 'edit', '99', '--param', 'a=1')).code, 6);
});

test('block, unblock, cancel and reopen move a task', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  assert.equal((await p.dibs('block', '1', '--reason', 'paint is wet')).out,
    "blocked 1 'a', now blocked\n");
  assert.match((await p.dibs('task', 'show', '1')).out, /block reason +paint is wet/);
  assert.equal((await p.dibs('claim', '1')).code, 7);
  assert.equal((await p.dibs('unblock', '1')).out, "unblocked 1 'a', now open\n");
  assert.equal((await p.dibs('cancel', '1')).out, "cancelled 1 'a', now cancelled\n");
  assert.equal((await p.dibs('block', '1')).code, 7);
  assert.equal((await p.dibs('reopen', '1')).out, "reopened 1 'a', now open\n");
  assert.equal((await p.dibs('reopen', '1')).code, 7);
  assert.equal((await p.dibs('cancel', '77')).code, 6);
});
