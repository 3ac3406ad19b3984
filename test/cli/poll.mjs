// SPDX-License-Identifier: MIT
// dibs poll, dibs notices ack and release: every type of trigger as people, scripts and programs
// see it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, program, until } from './lib/dibs.mjs';

const boss = { env: { DIBS_SESSION: 'boss-1', DIBS_AGENT: 'boss' } };
const ann = { env: { DIBS_SESSION: 'ann-1', DIBS_AGENT: 'ann' } };

async function swarm(t) {
  const p = await place(t);
  await p.dibs('agent', 'register', 'boss', '--lead');
  await p.dibs('agent', 'register', 'ann', '--max', '2');
  return p;
}

test('nothing to do is exit code 3, and says when to ask again', async (t) => {
  const p = await swarm(t);
  const { code, out, err } = await p.run(['poll'], ann);
  assert.equal(code, 3, err);
  assert.equal(out, '');
  assert.match(err, /^dibs: there is nothing to do\n/);
  const json = await p.run(['poll', '--json'], ann);
  assert.equal(json.code, 3);
  const answer = JSON.parse(json.out);
  assert.equal(answer.success, true);
  assert.equal(answer.trigger, null);
  assert.equal(answer.sessionId, 'ann-1');
  assert.ok(answer.nextPollMs > 0);
  const quiet = await p.run(['poll', '-q'], ann);
  assert.deepEqual([quiet.code, quiet.out, quiet.err], [3, '', '']);
});

test('an offer, an assigned task and the pool, for a worker', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence', '--param', 'colour=red');
  await p.dibs('task', 'add', 'wall');
  await p.dibs('task', 'add', 'roof', '--type', 'high');
  await p.dibs('offer', '1', 'ann');
  const offered = await p.run(['poll'], ann);
  assert.match(offered.out,
    /^offered, to be answered: 1 'fence' until \S+ \(token \d+\) as ann-1\n/);
  assert.match(offered.out, /params +\{"colour":"red"\}/);
  await p.run(['accept', '1'], ann);
  const assigned = await p.run(['poll'], ann);
  assert.match(assigned.out, /^assigned and claimed 1 'fence' until/);
  const pool = await p.run(['poll'], ann);
  assert.equal(pool.out, '2 tasks in the pool\n', pool.err);
  assert.equal((await p.run(['poll', '--claim', '--type', 'high', '-q'], ann)).out, '3\n');
  assert.equal((await p.run(['poll', '--claim'], ann)).code, 3, 'two at once is all it may hold');
  await p.as('ann-1', 'done', '1');
  assert.match((await p.run(['poll', '--claim'], ann)).out, /^claimed 2 'wall' until/);
});

test('messages, mentions and finished tasks, for a lead', async (t) => {
  const p = await swarm(t);
  await p.dibs('inbox', 'add', 'is it done?', '--user', 'U7');
  await p.dibs('channel', 'create', 'general');
  await p.dibs('channel', 'post', 'general', '@boss look', '--as', 'ann');
  for (const title of ['good', 'bad']) {
    await p.dibs('task', 'add', title, '--max-attempts', '1', '--assignee', 'ann');
  }
  await p.run(['poll'], ann);
  await p.as('ann-1', 'done', '1', '--result', '{"n":1}');
  await p.run(['poll'], ann);
  await p.as('ann-1', 'fail', '2', '--error', 'no luck');

  const messages = await p.run(['poll'], boss);
  assert.match(messages.out, /^1 +processing +- +api +U7 +is it done\? +boss-1 /m, messages.err);
  await p.run(['inbox', 'respond', '1', 'yes'], boss);
  assert.match((await p.run(['poll'], boss)).out, /^general +1 +\d+ +in /m);
  await p.run(['channel', 'read', 'general'], boss);
  const { out } = await p.run(['poll'], boss);
  assert.match(out, /^1 +completed +good +\{"n":1\}$/m);
  assert.match(out, /^2 +failed +bad +no luck$/m);
  assert.equal((await p.run(['poll'], boss)).code, 3);
});

test('with --ack manual finished tasks come again until they are acknowledged', async (t) => {
  const p = await swarm(t);
  for (const title of ['a', 'b']) await p.dibs('task', 'add', title, '--assignee', 'ann');
  for (const id of ['1', '2']) {
    await p.run(['claim', id], ann);
    await p.as('ann-1', 'done', id);
  }
  const told = await p.run(['poll', '--ack', 'manual', '-q'], boss);
  assert.equal(told.out, '1\n2\n', told.err);
  assert.equal((await p.run(['poll'], boss)).code, 3);
  assert.equal((await p.run(['notices', 'ack', '1'], boss)).out, 'told of 1 finished task\n');
  await p.as('boss-1', 'session', 'end');
  for (const args of [['2'], []]) {
    const again = await p.run(['poll', '--ack', 'manual', '--json'], boss);
    assert.deepEqual(JSON.parse(again.out).trigger.tasks.map((task) => String(task.id)), ['2']);
    const released = await p.run(['notices', 'release', ...args], boss);
    assert.equal(released.out, 'let go of 1 finished task\n', released.err);
  }
  assert.equal(JSON.parse((await p.run(['notices', 'release', '--json'], boss)).out).released, 0);
  assert.equal((await p.run(['poll', '--ack', 'manual', '-q'], boss)).out, '2\n');
  const all = await p.run(['notices', 'ack', '--json'], boss);
  assert.equal(JSON.parse(all.out).acked, 1);
  assert.ok((await p.json('task', 'show', '2')).task.notifiedAt);
});

test('--wait waits for something to happen', async (t) => {
  const p = await swarm(t);
  await p.run(['session', 'register', 'ann-1', '--agent-id', 'ann']);
  const waiting = p.spawn(program, ['poll', '--claim', '--wait', '20s'], ann);
  await p.dibs('task', 'add', 'fence');
  const { code, out, err } = await waiting.ended;
  assert.equal(code, 0, err);
  assert.match(out, /^claimed 1 'fence' until/);
});

test('a session of nobody becomes the agent\'s, one of another agent does not', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'a');
  await p.dibs('claim', '1');
  assert.equal((await p.json('session', 'show', 'tester')).session.agentId, undefined);
  assert.equal((await p.dibs('poll', '--agent', 'ann')).code, 3);
  const { session } = await p.json('session', 'show', 'tester');
  assert.equal(session.agentId, 'ann');
  assert.equal((await p.dibs('done', '1')).code, 0, 'what it held is kept');
  const other = await p.dibs('poll', '--agent', 'boss');
  assert.equal(other.code, 2);
  assert.match(other.err, /tester/);
});

test('a review that is not answered is offered again', async (t) => {
  const p = await swarm(t);
  await p.dibs('task', 'add', 'fence');
  await p.dibs('offer', '1', 'ann');
  await p.run(['poll', '--ttl', '1s', '--min-ttl', '1s'], ann);
  await until('the review ends', async () => {
    await p.json('cleanup', '--type', 'expired');
    return (await p.json('task', 'show', '1')).task.status === 'offered';
  });
  assert.equal((await p.run(['poll', '-q'], ann)).out, '1\n');
});

test('what is not possible says so with its exit code', async (t) => {
  const p = await swarm(t);
  for (const [args, code, says] of [
    [['poll'], 2, /--agent/],
    [['poll', '--agent', 'nobody'], 6, /no agent 'nobody'/],
    [['poll', '--agent', 'ann', '--ack', 'never'], 2, /ack/],
    [['poll', '--agent', 'ann', '--wait', 'long'], 2, /--wait/],
    [['poll', '--agent', 'ann', '--ttl', '99d'], 2, /--ttl/],
    [['poll', 'x'], 2, /too many/],
    [['notices', 'ack', '--session', 'nobody'], 6, /no session 'nobody'/],
    [['notices', 'release', '--session', 'nobody'], 6, /no session 'nobody'/]]) {
    const answer = await p.dibs(...args);
    assert.equal(answer.code, code, `${args.join(' ')}: ${answer.err}`);
    assert.match(answer.err, says, args.join(' '));
    const json = await p.run([...args, '--json']);
    assert.equal(json.code, code, args.join(' '));
    assert.equal(JSON.parse(json.out).success, false);
  }
});
