// SPDX-License-Identifier: MIT
// dibs claim, heartbeat, progress, done, fail, release: what a worker does, and its exit codes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, until } from './lib/dibs.mjs';

async function withTasks(t, count) {
  const p = await place(t);
  for (let i = 1; i <= count; i++) await p.dibs('task', 'add', `t${i}`);
  return p;
}

/** A task whose lease of one second, held by "first", has run out and that "second" has now. */
async function lost(t) {
  const p = await withTasks(t, 1);
  const held = await p.as('first', 'claim', '1', '--ttl', '1s', '--min-ttl', '1s');
  assert.equal(held.code, 0, held.err);
  await until('the lease ends', async () => (await p.as('second', 'claim', '1')).code === 0);
  return p;
}

test('claim takes the best task and says who you are and until when', async (t) => {
  const p = await withTasks(t, 2);
  await p.dibs('task', 'add', 'urgent', '-p', 'critical', '--param', 'n=1');
  const { code, out } = await p.dibs('claim');
  assert.equal(code, 0);
  assert.match(out, /^claimed 3 'urgent' until \d\d:\d\d:\d\d \(token 1\) as tester\n/);
  assert.match(out, /params +\{"n":1\}/);
  assert.match((await p.dibs('claim', '--next')).out, /^claimed 1 /);
});

test('claim ID claims that one, and again extends it', async (t) => {
  const p = await withTasks(t, 2);
  assert.match((await p.dibs('claim', '2')).out, /^claimed 2 't2' until .* \(token 1\) as tester/);
  assert.match((await p.dibs('claim', '2')).out, /^still yours: 2 't2' .* \(token 1\)/);
  assert.equal((await p.dibs('claim', '1', '-q')).out, '1\n');
});

test('nothing to claim is exit code 3', async (t) => {
  const p = await place(t);
  const { code, out, err } = await p.dibs('claim');
  assert.equal(code, 3);
  assert.equal(out, '');
  assert.match(err, /^dibs: no claimable task matches\ntry: /);
  const json = await p.json('claim');
  assert.equal(json.success, false);
  assert.equal(json.error, 'NOTHING_TO_CLAIM');
});

test('held by another is exit code 4, and says by whom', async (t) => {
  const p = await withTasks(t, 1);
  await p.as('ann', 'claim', '1');
  const { code, err } = await p.dibs('claim', '1');
  assert.equal(code, 4);
  assert.match(err, /'ann'/);
  assert.equal((await p.json('claim', '1')).claim.sessionId, 'ann');
});

test('what a former holder says is exit code 5 and changes nothing', async (t) => {
  const p = await lost(t);
  for (const command of [['heartbeat', '1'], ['progress', '1', '--percent', '5'], ['done', '1'],
    ['fail', '1'], ['release', '1']]) {
    const { code, err } = await p.as('first', ...command);
    assert.equal(code, 5, `${command}: ${err}`);
    assert.match(err, /^dibs: /);
  }
  const { task } = await p.json('task', 'show', '1');
  assert.equal(task.status, 'in_progress');
  assert.equal(task.claim.sessionId, 'second');
});

test('an old token is exit code 5', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('claim', '1');
  await p.dibs('release', '1');
  await p.dibs('claim', '1');
  assert.equal((await p.dibs('done', '1', '--token', '1')).code, 5);
  assert.equal((await p.dibs('done', '1', '--token', '2')).code, 0);
});

test('a task that nobody holds is exit code 5, one that does not exist 6', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('session', 'register');
  const { code, err } = await p.dibs('done', '1');
  assert.equal(code, 5, err);
  assert.equal((await p.dibs('done', '99')).code, 6);
  assert.equal((await p.dibs('claim', '99')).code, 6);
});

test('a blocked or finished task is exit code 7, another report on it too', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('claim', '1');
  assert.equal((await p.dibs('done', '1', '--result', '1')).code, 0);
  assert.equal((await p.dibs('done', '1', '--result', '1')).code, 0, 'an identical repeat');
  const { code, err } = await p.dibs('done', '1', '--result', '2');
  assert.equal(code, 7);
  assert.match(err, /try: dibs reopen 1/);
  assert.equal((await p.dibs('claim', '1')).code, 7);
});

test('bad input is exit code 2', async (t) => {
  const p = await withTasks(t, 1);
  for (const bad of [['claim', '--ttl', '1s'], ['claim', '--sort', 'colour'], ['claim', '-n', '0'],
    ['claim', '1', '--type', 'x'], ['claim', '1', '--next'], ['claim', '1', '2'],
    ['claim', '--session', 'not an id'], ['done'], ['heartbeat', '--token', '3'],
    ['progress', '1', '--percent', 'half']]) {
    const { code, err } = await p.dibs(...bad);
    assert.equal(code, 2, `${bad}: ${err}`);
  }
  assert.equal((await p.json('task', 'show', '1')).task.status, 'open');
});

test('a refusal speaks of the option as it was written', async (t) => {
  const p = await withTasks(t, 1);
  for (const [args, begin] of [[['claim', '--ttl', '5s'], '--ttl must be between'],
    [['claim', '1', '--ttl', '5s'], '--ttl must be between'],
    [['claim', '--sort', 'colour'], '--sort must be one of'],
    [['task', 'list', '-n', '0'], '--limit must be at least 1'],
    [['events', '-n', '0'], '--limit must be at least 1']]) {
    const { code, err } = await p.dibs(...args);
    assert.equal(code, 2);
    assert.ok(err.startsWith(`dibs: ${begin}`), err);
  }
  assert.equal((await p.json('claim', '--ttl', '5s')).field, 'ttl_ms');
});

test('--wait under an idempotency key is refused, not ignored', async (t) => {
  const p = await place(t);
  const { code, err } = await p.dibs('claim', '--wait', '20s', '--idempotency-key', 'k');
  assert.equal(code, 2);
  assert.match(err, /^dibs: --wait cannot be given with an idempotency key/);
});

test('claim chooses by type, tag, order and number', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a', '--type', 'x', '-p', '10');
  await p.dibs('task', 'add', 'b', '--type', 'y', '-t', 'red', '-p', '90');
  await p.dibs('task', 'add', 'c', '--type', 'z', '-p', '50');
  assert.equal((await p.dibs('claim', '-q', '--type', 'x', '--type', 'z')).out, '3\n');
  assert.equal((await p.dibs('claim', '-q', '--tag', 'red')).out, '2\n');
  await p.dibs('release', '2');
  await p.dibs('release', '3');
  const order = ['--sort', 'created_at', '--order', 'desc', '-n', '2'];
  assert.equal((await p.dibs('claim', '-q', ...order)).out, '3\n2\n');
});

test('--wait waits for a task to appear', async (t) => {
  const p = await place(t);
  const waiting = p.start('claim', '--wait', '20s', '-q');
  await p.dibs('task', 'add', 'arrives');
  const { code, out } = await waiting.ended;
  assert.equal(code, 0);
  assert.equal(out, '1\n');
  assert.equal((await p.dibs('claim', '--wait', '1ms')).code, 3);
});

test('ten at once on five tasks: each is given once, five find none left', async (t) => {
  const p = await withTasks(t, 5);
  const ten = await Promise.all(Array.from({ length: 10 }, (_, i) => p.as(`w${i}`, 'claim', '-q')));
  const won = ten.filter((r) => r.code === 0).map((r) => r.out.trim()).sort();
  assert.deepEqual(won, ['1', '2', '3', '4', '5']);
  assert.equal(ten.filter((r) => r.code === 3).length, 5);
});

test('heartbeat, progress, done: a whole life', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('claim', '1', '--ttl', '5m');
  assert.match((await p.dibs('heartbeat', '1', '--extend', '1h')).out, /^renewed 1, yours until /);
  assert.match((await p.dibs('heartbeat')).out, /^session tester renewed, with 1 claims/);
  const note = ['--percent', '40', '-m', 'half', '--checkpoint', '{"at":4}'];
  const noted = await p.json('progress', '1', ...note);
  assert.deepEqual(noted.claim.progress, { percent: 40, message: 'half' });
  assert.match((await p.dibs('task', 'show', '1')).out, /progress +40%, half/);
  assert.equal((await p.dibs('done', '1', '--result', 'not json')).out,
    "done 1 't1', now completed\n");
  assert.equal((await p.json('task', 'show', '1')).task.result, 'not json');
});

test('fail puts the task back with a back-off, --permanent ends it', async (t) => {
  const p = await withTasks(t, 2);
  await p.dibs('claim', '1');
  assert.equal((await p.dibs('fail', '1', '--error', 'broke')).out,
    "failed 1 't1', now open, claimable in 1s\n");
  assert.equal((await p.json('task', 'show', '1')).task.error, 'broke');
  await p.dibs('claim', '2');
  assert.match((await p.dibs('fail', '2', '--permanent')).out, /now failed$/m);
});

test('release gives the task back, and the next holder finds the checkpoint', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('claim', '1');
  await p.dibs('progress', '1', '--checkpoint', '{"row":7}');
  assert.equal((await p.dibs('release', '1', '--reason', 'lunch')).out,
    "released 1 't1', now open\n");
  assert.match((await p.as('other', 'claim')).out, /checkpoint +\{"row":7\}/);
});

test('done --next claims the next one in the same step', async (t) => {
  const p = await withTasks(t, 2);
  await p.dibs('claim');
  const next = await p.dibs('done', '1', '--next');
  assert.match(next.out, /^done 1 't1', now completed\nclaimed 2 't2' until /);
  assert.equal((await p.dibs('done', '2', '--next')).out,
    "done 2 't2', now completed\nnothing more to claim\n");
});

test('a cancelled task is told in the heartbeat', async (t) => {
  const p = await withTasks(t, 1);
  await p.dibs('claim');
  await p.as('boss', 'cancel', '1');
  assert.match((await p.dibs('heartbeat')).out, /cancelled, stop working on: 1/);
  const { code, err } = await p.dibs('heartbeat', '1');
  assert.equal(code, 5);
  assert.match(err, /^try: stop working on it \(it was cancelled\), or dibs reopen 1$/m);
});

test('a report that comes too late says that its result was kept', async (t) => {
  const p = await lost(t);
  const late = await p.as('first', 'done', '1', '--result', '{"n":1}');
  assert.equal(late.code, 5);
  assert.match(late.err, /^the result was kept: dibs task show 1 --history$/m);
  assert.match((await p.as('first', 'fail', '1', '--error', 'oh')).err, /^the error was kept: /m);
  assert.match((await p.dibs('task', 'show', '1', '--history')).out, /late-result.*\{"n":1\}/);
  assert.doesNotMatch((await p.as('first', 'done', '1')).err, /kept/);
  assert.doesNotMatch((await p.as('stranger', 'done', '1', '--result', '2')).err, /kept/);
});

test('an idempotency key gives the same claim again', async (t) => {
  const p = await withTasks(t, 2);
  const one = await p.json('claim', '--idempotency-key', 'k1');
  const two = await p.json('claim', '--idempotency-key', 'k1');
  assert.deepEqual(one, two);
});

test('without a session the terminal is one: all its commands are the same holder', async (t) => {
  const p = await withTasks(t, 1);
  const env = { DIBS_SESSION: '' };
  const claimed = await p.run(['claim'], { env });
  assert.equal(claimed.code, 0, claimed.err);
  const id = /as (\S+)\n/.exec(claimed.out)[1];
  assert.match(id, /^[\w.]+-[\w.-]+-\d+$/);
  assert.match(claimed.err, /set DIBS_SESSION/);
  assert.equal((await p.run(['claim', '-q'], { env })).err.includes('set DIBS_SESSION'), false);
  assert.equal((await p.run(['done', '1'], { env })).code, 0);
  const { session } = await p.json('session', 'show', id);
  assert.equal(session.pid, Number(id.split('-').at(-1)), 'it ends with the session leader');
});

test('a command that leads its own session is not watched: it would be gone at once', async (t) => {
  const p = await withTasks(t, 1);
  const { code, out, err } = await p.sh('setsid -w "$dibs" claim', { env: { DIBS_SESSION: '' } });
  assert.equal(code, 0, err);
  const { session } = await p.json('session', 'show', /as (\S+)\n/.exec(out)[1]);
  assert.equal(session.pid, undefined);
  assert.equal(session.claims, 1);
});

test('a session named by its user is registered when needed, with --pid if given', async (t) => {
  const p = await withTasks(t, 2);
  assert.equal((await p.as('new-one', 'claim', '1', '--pid', String(process.pid))).code, 0);
  assert.equal((await p.json('session', 'show', 'new-one')).session.pid, process.pid);
  assert.equal((await p.as('new-two', 'claim', '--agent-type', 'painter')).code, 0);
  const { session } = await p.json('session', 'show', 'new-two');
  assert.equal(session.pid, undefined);
  assert.equal(session.agentType, 'painter');
});

test('who claims from the command line is of type cli, whichever way it claims', async (t) => {
  const p = await withTasks(t, 2);
  assert.equal((await p.as('by-id', 'claim', '2')).code, 0);
  assert.equal((await p.as('next', 'claim')).code, 0);
  for (const id of ['by-id', 'next']) {
    assert.equal((await p.json('session', 'show', id)).session.agentType, 'cli', id);
  }
});
