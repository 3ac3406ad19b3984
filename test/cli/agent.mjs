// SPDX-License-Identifier: MIT
// dibs agent register, list, show, scores; dibs offer, accept, reject, assign.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

/** A place with a lead and two workers. */
async function swarm(t) {
  const p = await place(t);
  await p.dibs('agent', 'register', 'boss', '--lead');
  await p.dibs('agent', 'register', 'ann', '--max', '2', '--capability', 'paint');
  await p.dibs('agent', 'register', 'bob');
  return p;
}

test('register makes an agent known, and again changes what is given', async (t) => {
  const p = await place(t);
  const first = await p.dibs('agent', 'register', 'ann', '--max', '3', '--capability', 'paint',
    '--capability', 'draw');
  assert.equal(first.out, 'registered ann (worker, up to 3 at once)\n', first.err);
  const again = await p.dibs('agent', 'register', 'ann', '--lead');
  assert.equal(again.out, 'changed ann (lead, up to 3 at once)\n');
  const { agent } = await p.json('agent', 'show', 'ann');
  assert.deepEqual(agent.capabilities, ['paint', 'draw']);
  assert.equal(agent.isLead, true);
  assert.equal((await p.dibs('agent', 'register', 'ann', '--worker', '-q')).out, 'ann\n');
  assert.equal((await p.json('agent', 'show', 'ann')).agent.isLead, false);
  const other = await p.json('agent', 'register', 'Bob', '--id', 'b-1', '--project', 'web',
    '--metadata', '{"model":"x"}');
  assert.equal(other.agent.id, 'b-1');
  assert.equal(other.agent.name, 'Bob');
  assert.equal(other.agent.project, 'web');
  assert.deepEqual(other.agent.metadata, { model: 'x' });
});

test('list shows role, state and load; filters by role and project', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('agent', 'list')).out, 'no agents\n');
  await p.dibs('agent', 'register', 'boss', '--lead');
  await p.dibs('agent', 'register', 'ann', '--max', '2', '--capability', 'paint');
  await p.dibs('task', 'add', 'fence', '--assignee', 'ann');
  await p.run(['claim', '1'], { env: { DIBS_SESSION: 'ann-1', DIBS_AGENT: 'ann' } });
  const { out } = await p.dibs('agent', 'list');
  assert.match(out, /^boss +lead +offline +0\/1 +0 +default +- +\S/m);
  assert.match(out, /^ann +worker +busy +1\/2 +1 +default +paint +\S/m);
  assert.equal((await p.dibs('agent', 'list', '--leads', '-q')).out, 'boss\n');
  assert.equal((await p.dibs('agent', 'list', '--workers', '-q')).out, 'ann\n');
  assert.equal((await p.dibs('agent', 'list', '--project', 'web', '-q')).out, '');
  await p.as('ann-1', 'done', '1');
  assert.match((await p.dibs('agent', 'show', 'ann')).out, /^ann {2}worker {2}idle$/m);
  assert.match((await p.dibs('agent', 'scores')).out, /^ann +1 +1 +0 /m);
});

test('an offer is accepted by the agent it is for, and assigned', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence');
  assert.equal((await p.dibs('offer', '1', 'ann')).out, "offered 1 'fence' to ann, now offered\n");
  const wrong = await p.dibs('accept', '1', '--agent', 'bob');
  assert.equal(wrong.code, 7);
  assert.match(wrong.err, /offered to agent 'ann'/);
  const { out } = await p.run(['accept', '1'], { env: { DIBS_AGENT: 'ann' } });
  assert.equal(out, "accepted 1 'fence' for ann, now assigned\n");
  assert.equal((await p.as('tester', 'claim', '1')).code, 7);
  const env = { DIBS_SESSION: 'ann-1', DIBS_AGENT: 'ann' };
  assert.equal((await p.run(['claim', '1', '-q'], { env })).out, '1\n');
  assert.equal((await p.as('ann-1', 'done', '1')).code, 0);
});

test('a rejected offer is back in the pool with its reason', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence');
  await p.dibs('offer', '1', 'ann');
  const { code, out } = await p.dibs('reject', '1', '--agent', 'ann', '--reason', 'no brush');
  assert.equal(code, 0);
  assert.equal(out, "rejected 1 'fence' for ann, now open\n");
  const { events } = await p.json('events', '--types', 'task:rejected');
  assert.equal(events.length, 1);
  assert.match(JSON.stringify(events[0]), /no brush/);
  assert.equal((await p.as('bob-1', 'claim', '-q')).out, '1\n');
});

test('accept and reject work after poll has made the offer a review', async (t) => {
  const p = await swarm(t);
  for (const title of ['fence', 'wall']) await p.dibs('task', 'add', title);
  for (const id of ['1', '2']) await p.dibs('offer', id, 'ann');
  const env = { DIBS_SESSION: 'ann-1', DIBS_AGENT: 'ann' };
  const reviewed = [];
  for (const verb of ['accept', 'reject']) {
    const { code, out, err } = await p.run(['poll', '--json'], { env });
    assert.equal(code, 0, err);
    const { trigger } = JSON.parse(out);
    assert.equal(trigger.type, 'task_offered');
    const id = String(trigger.taskId);
    reviewed.push(id);
    assert.equal((await p.json('task', 'show', id)).task.status, 'reviewing');
    assert.equal((await p.run([verb, id], { env })).code, 0);
    const after = verb === 'accept' ? 'assigned' : 'open';
    assert.equal((await p.json('task', 'show', id)).task.status, after);
  }
  assert.deepEqual(reviewed.sort(), ['1', '2']);
});

test('an assigned task is only for its agent', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence');
  assert.equal((await p.dibs('assign', '1', 'bob')).out,
    "assigned 1 'fence' to bob, now assigned\n");
  assert.equal((await p.as('ann-1', 'claim', '1')).code, 7);
  const env = { DIBS_SESSION: 'bob-1', DIBS_AGENT: 'bob' };
  assert.equal((await p.run(['claim', '1'], { env })).code, 0);
  assert.equal((await p.dibs('assign', '1', 'bob')).code, 7);
});

test('what is not possible says so with its exit code', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence');
  await p.dibs('agent', 'register', 'eve', '--id', 'e-1');
  for (const [args, code, says] of [
    [['agent', 'register'], 2, /NAME/],
    [['agent', 'register', 'not a name'], 2, /name/],
    [['agent', 'register', 'x', '--lead', '--worker'], 2, /exclude/],
    [['agent', 'register', 'x', '--max', '0'], 2, /--max/],
    [['agent', 'register', 'eve', '--id', 'ann'], 8, /'eve'/],
    [['agent', 'list', '--leads', '--workers'], 2, /exclude/],
    [['agent', 'show', 'nobody'], 6, /no agent 'nobody'[^]*try: dibs agent list/],
    [['agent', 'show', 'scores'], 6, /no agent 'scores'/],
    [['offer', '1'], 2, /AGENT/],
    [['offer', '9', 'ann'], 6, /no task '9'/],
    [['offer', '1', 'nobody'], 6, /no agent 'nobody'/],
    [['assign', '1', 'nobody'], 6, /no agent 'nobody'/],
    [['accept', '1'], 2, /--agent/],
    [['accept', '1', '--agent', 'no agent'], 2, /no agent/],
    [['accept', '1', '--agent', 'ann'], 7, /task '1'/],
    [['reject', '1', '--agent', 'ann'], 7, /task '1'/],
    [['offer', 'claim', 'ann'], 6, /no task 'claim'/]]) {
    const answer = await p.dibs(...args);
    assert.equal(answer.code, code, `${args.join(' ')}: ${answer.err}`);
    assert.match(answer.err, says, args.join(' '));
    const json = await p.run([...args, '--json']);
    assert.equal(json.code, code);
    assert.equal(JSON.parse(json.out).success, false);
  }
});
