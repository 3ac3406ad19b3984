// SPDX-License-Identifier: MIT
// dibs session ..., in-flight, stats, scores, cleanup.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { place, until } from './lib/dibs.mjs';

test('register prints the id and how to act as it', async (t) => {
  const p = await place(t);
  const named = await p.dibs('session', 'register', 'ann', '--agent-type', 'painter',
    '--agent-id', 'ann-agent', '--pid', String(process.pid), '--metadata', '{"a":1}');
  assert.equal(named.out, 'registered ann (incarnation 1)\n');
  assert.match(named.err, /export DIBS_SESSION=ann/);
  assert.match((await p.dibs('session', 'register', 'ann')).out, /incarnation 2/);
  const numbered = await p.run(['session', 'register', '-q'], { env: { DIBS_SESSION: '' } });
  assert.match(numbered.out, /^\d+\n$/);
  assert.equal(numbered.err, '');
});

test('list and show tell what a session does and did', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('session', 'list')).out, 'no sessions\n');
  await p.dibs('task', 'add', 'a');
  await p.dibs('task', 'add', 'b');
  await p.dibs('claim');
  await p.dibs('done', '1');
  await p.dibs('claim');
  assert.match((await p.dibs('session', 'list')).out, /^tester +active +\S+ +2 +1 +0 +1\/2 +/m);
  const { out } = await p.dibs('session', 'show');
  assert.match(out, /^tester {2}active$/m);
  assert.match(out, /working on +2$/m);
  assert.match(out, /^1 .*completed$/m);
  assert.equal((await p.dibs('session', 'list', '-q')).out, 'tester\n');
  assert.equal((await p.dibs('session', 'show', 'nobody')).code, 6);
  assert.equal((await p.dibs('session', 'show', 'summary')).code, 6);
});

test('end releases what the session holds', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  await p.dibs('claim');
  await p.dibs('lock', 'take', 'x');
  assert.equal((await p.dibs('session', 'end')).out,
    'ended tester; 1 claims and 1 locks released\n');
  assert.equal((await p.as('other', 'claim', '-q')).out, '1\n');
  assert.match((await p.dibs('session', 'list', '--all')).out, /tester +ended/);
});

test('heartbeat and resume', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  await p.dibs('claim', '--ttl', '1s', '--min-ttl', '1s');
  assert.match((await p.dibs('session', 'heartbeat')).out, /^renewed, with 1 claims/);
  assert.equal((await p.dibs('session', 'resume')).out, 'nothing to resume\n');
  await until('the lease ends', async () => {
    await p.json('cleanup', '--type', 'expired');
    return (await p.json('task', 'show', '1')).task.status === 'open';
  });
  assert.equal((await p.dibs('session', 'resume')).out, "yours again: 1 'a'\n");
  assert.equal((await p.dibs('session', 'heartbeat', 'nobody')).code, 6);
});

test('summary shows all sessions and what was completed', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'the first');
  await p.dibs('task', 'add', 'the second');
  await p.dibs('claim');
  await p.dibs('done', '1');
  await p.as('ann', 'claim');
  const { code, out, err } = await p.dibs('session', 'summary');
  assert.equal(code, 0, err);
  assert.match(out, /^2 active sessions, 0 stale, 1 tasks in flight, 1 completed today\n/);
  assert.match(out, /^ann .*the second/m);
  assert.match(out, /1 +the first +tester/);
});

test('in-flight lists who holds what', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('in-flight')).out, 'nothing is claimed\n');
  for (const title of ['a', 'b']) await p.dibs('task', 'add', title);
  await p.as('ann', 'claim');
  await p.as('bob', 'claim');
  await p.as('bob', 'progress', '2', '--percent', '30');
  const { out } = await p.dibs('in-flight');
  assert.match(out, /^1 +a +ann +now +in 30m +healthy +-$/m);
  assert.match(out, /^2 +b +bob +.* 30%$/m);
  assert.equal((await p.dibs('in-flight', '--session', 'bob', '-q')).out, '2\n');
  const json = await p.json('in-flight');
  assert.deepEqual(json.summary, { total: 2, bySession: { ann: 1, bob: 1 } });
});

test('stats and scores count', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('scores')).out, 'no scores yet\n');
  await p.dibs('task', 'add', 'a');
  await p.dibs('claim');
  await p.as('ann', 'claim', '1');
  await p.dibs('done', '1');
  await p.dibs('task', 'add', 'b');
  await p.dibs('claim', '2');
  const { out } = await p.dibs('stats');
  assert.match(out, /^ +total +1\n +active +1$/m);
  assert.match(out, /by status +completed 1, in_progress 1/);
  assert.match(out, /claims +claimed 2, completed 1, .*refused 1/);
  assert.match((await p.dibs('scores')).out, /^tester +2 +1 +0 /m);
});

test('cleanup frees what a dead process holds, --no-process-check does not', async (t) => {
  const p = await place(t, { daemon: false }); // it would be faster
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] });
  t.after(() => child.kill('SIGKILL'));
  await p.dibs('task', 'add', 'a');
  await p.as('mortal', 'claim', '--pid', String(child.pid));
  const alive = await p.json('cleanup', '--type', 'orphaned');
  assert.equal(alive.cleaned.count, 0);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const unchecked = await p.json('cleanup', '--type', 'orphaned', '--no-process-check');
  assert.equal(unchecked.cleaned.count, 0);
  const { out } = await p.dibs('cleanup', '--type', 'orphaned');
  assert.match(out, /^freed 1\n/);
  assert.match(out, /^1 +mortal .*process_dead$/m);
});

test('cleanup sweeps everything, or releases one session', async (t) => {
  const p = await place(t);
  assert.match((await p.dibs('cleanup')).out, /^expired 0, orphaned 0, locks 0/);
  await p.dibs('task', 'add', 'a');
  await p.as('ann', 'claim');
  assert.match((await p.dibs('cleanup', '--session', 'ann', '--reason', 'gone home')).out,
    /^freed 1\n/);
  for (const type of ['expired', 'orphaned', 'locks', 'sessions', 'events']) {
    assert.equal((await p.dibs('cleanup', '--type', type)).code, 0, type);
  }
  assert.equal((await p.dibs('cleanup', '--type', 'nonsense')).code, 2);
  assert.equal((await p.dibs('cleanup', '--no-process-check')).code, 2);
});
