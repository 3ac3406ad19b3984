// SPDX-License-Identifier: MIT
// test-timeout: 240
// A runner as an agent: every kind of trigger, and what becomes of it by the way its command ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { appeared, drained, has, house, lines, put, reached, shell, short, show, stop, text, until }
  from './lib/run.mjs';

/** A runner as this agent. */
const agent = (h, name, script, ...more) => shell(h, ['--agent', name, ...more], script);

const offered = (h, id, to) => h.ok('POST', `/api/tasks/${id}/offer`, { agentId: to });
const lead = (h, name = 'boss') =>
  h.ok('POST', '/api/agents', { name, isLead: true, project: 'default' });
const ready = (running) => until('it waits', () => running.err.includes('waiting for work'));
const message = async (h, id) => (await h.ok('GET', `/api/inbox/${id}`)).message;
const mail = async (h, content, more = {}) =>
  (await h.ok('POST', '/api/inbox', { content, agentId: 'boss', ...more })).message.id;

test('a worker takes tasks from the pool, and those assigned to it', async (t) => {
  const h = await house(t);
  const pool = await h.task({ title: 'pool' });
  const running = agent(h, 'ann', `cat >"$dir/$DIBS_TASK_ID.json"
    echo "$DIBS_TRIGGER $DIBS_AGENT $DIBS_ATTEMPT" >"$dir/$DIBS_TASK_ID.env"; echo done`);
  const task = await reached(h, pool, 'completed');
  assert.deepEqual(task.result, { exitCode: 0, output: 'done\n' });
  const trigger = JSON.parse(text(h, `${pool}.json`));
  assert.equal(trigger.type, 'pool_task_claimed');
  assert.equal(trigger.task.title, 'pool');
  assert.equal(trigger.claim.attempt, 1);
  assert.equal(text(h, `${pool}.env`), 'pool_task_claimed ann 1\n');
  const mine = await h.task({ title: 'mine', assignee: 'ann' });
  await reached(h, mine, 'completed');
  assert.equal(text(h, `${mine}.env`), 'task_assigned ann 1\n');
  const [known] = (await h.ok('GET', '/api/agents')).agents;
  assert.equal(known.id, 'ann');
  assert.equal(known.maxTasks, 1);
  await stop(running);
});

test('an offer: exit 0 accepts it, and then it is done', async (t) => {
  const h = await house(t);
  const running = agent(h, 'ann', 'echo "$DIBS_TRIGGER" >>"$dir/triggers"');
  await ready(running);
  const id = await h.task({ title: 'o', offeredTo: 'ann' });
  await reached(h, id, 'completed');
  assert.deepEqual(lines(h, 'triggers'), ['task_offered', 'task_assigned']);
  await stop(running);
});

test('an offer: any other exit code rejects it with the reason', async (t) => {
  const h = await house(t);
  const running = agent(h, 'ann', 'echo "too hard" >&2; exit 4', '--type', 'none');
  await ready(running);
  const id = await h.task({ title: 'o' });
  await offered(h, id, 'ann');
  const task = await reached(h, id, 'open');
  assert.equal(task.rejectionReason, 'exit code 4: too hard');
  await stop(running);
});

test('an offer: exit 75 lets the review go, and it is offered again', async (t) => {
  const h = await house(t);
  const running = agent(h, 'ann', 'echo x >>"$dir/tries"; test -e "$dir/go" || exit 75');
  await ready(running);
  const id = await h.task({ title: 'o', offeredTo: 'ann' });
  await until('it was looked at', () => lines(h, 'tries').length === 1);
  await reached(h, id, 'offered');
  put(h, 'go');
  await reached(h, id, 'completed');
  await stop(running);
});

test('messages: exit 0 marks as read what the command has not answered itself', async (t) => {
  const h = await house(t);
  await lead(h);
  const first = await mail(h, 'one');
  const second = await mail(h, 'two');
  const running = agent(h, 'boss', `cat >"$dir/in"; touch "$dir/up"
    "$dibs" inbox respond ${first} 'hello' >"$dir/said" 2>&1`);
  await until('both are settled', async () => (await message(h, first)).status === 'responded' &&
    (await message(h, second)).status === 'read');
  const trigger = JSON.parse(text(h, 'in'));
  assert.equal(trigger.type, 'slack_inbox_message');
  assert.deepEqual(trigger.messages.map((m) => m.content), ['one', 'two']);
  assert.equal((await message(h, first)).responseText, 'hello', text(h, 'said'));
  await stop(running);
});

test('messages: any other end gives them back, and they come again', async (t) => {
  const h = await house(t);
  await lead(h);
  const id = await mail(h, 'one');
  const running = agent(h, 'boss', `echo x >>"$dir/tries"; test $(wc -l <"$dir/tries") -ge 2`);
  await until('it is read', async () => (await message(h, id)).status === 'read');
  assert.equal(lines(h, 'tries').length, 2);
  await stop(running);
});

test('mentions: exit 0 counts as read, anything else gives them back', async (t) => {
  const h = await house(t);
  await lead(h);
  await h.ok('POST', '/api/channels', { id: 'general' });
  await h.ok('POST', '/api/channels/general/messages', { author: 'ann', content: 'hi @boss' });
  const running = agent(h, 'boss', `cat >"$dir/in"; echo x >>"$dir/tries"
    test $(wc -l <"$dir/tries") -ge 2`);
  await until('it was tried twice', () => lines(h, 'tries').length === 2);
  const trigger = JSON.parse(text(h, 'in'));
  assert.equal(trigger.type, 'unread_mentions');
  assert.deepEqual(trigger.claimedChannels, ['general']);
  const nothing = async () =>
    (await h.post('/api/mentions/claim', { agentId: 'boss', sessionId: 'x' })).status !== 200;
  await h.session('x', { agentId: 'boss' });
  await until('it is told', () => running.err.includes('unread_mentions: read after'));
  await until('nothing is unread', nothing);
  await stop(running);
  assert.equal(await nothing(), true);
});

test('finished tasks: exit 0 acknowledges them, otherwise they come again', async (t) => {
  const h = await house(t);
  await lead(h);
  const running = agent(h, 'boss', `cat >"$dir/in"; echo x >>"$dir/tries"
    test $(wc -l <"$dir/tries") -ge 2`);
  await ready(running);
  const id = await h.task({ title: 'work' });
  await h.session('w', { agentId: 'ann' });
  await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 'w' });
  await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 'w', result: 5 });
  await until('it was told', async () => (await show(h, id)).notifiedAt !== undefined);
  assert.equal(lines(h, 'tries').length, 2);
  const trigger = JSON.parse(text(h, 'in'));
  assert.equal(trigger.type, 'tasks_finished');
  assert.deepEqual(trigger.tasks.map((task) => task.id), [id]);
  await stop(running);
});

test('several triggers of each type, three at a time: each is processed once', async (t) => {
  const h = await house(t);
  await lead(h);
  const script = `cat >"$dir/$$.json"; echo "$DIBS_TRIGGER" >>"$dir/triggers"
    mkdir -p "$dir/now/$$"; ls "$dir/now" | wc -l >>"$dir/counts"; rmdir "$dir/now/$$"`;
  const boss = agent(h, 'boss', script, '--max', '3');
  const worker = agent(h, 'ann', script, '--max', '3');
  await ready(boss);
  await ready(worker);
  const ids = [];
  for (let i = 0; i < 4; i++) {
    ids.push(await h.task({ title: `pool ${i}` }), await h.task({ title: 'a', assignee: 'ann' }),
      await h.task({ title: 'o', offeredTo: 'ann' }));
    await mail(h, `message ${i}`);
  }
  for (const id of ids) await reached(h, id, 'completed');
  await until('every message is read', async () =>
    (await h.ok('GET', '/api/inbox?status=read')).messages.length === 4);
  for (const id of ids) {
    await until(`the lead knows of ${id}`, async () => (await show(h, id)).notifiedAt);
  }
  await stop(boss);
  await stop(worker);
  const triggers = lines(h, 'triggers');
  const of = (type) => triggers.filter((x) => x === type).length;
  assert.equal(of('task_offered'), 4);
  assert.equal(of('task_assigned'), 8);
  assert.equal(of('pool_task_claimed'), 4);
});

test('a worker at capacity is given nothing, and the next task as soon as one ends', async (t) => {
  const h = await house(t);
  const ids = [await h.task(), await h.task(), await h.task()];
  const running = agent(h, 'ann', `touch "$dir/up$DIBS_TASK_ID"
    while [ ! -e "$dir/go$DIBS_TASK_ID" ]; do sleep 0.02; done`, '--max', '2');
  await appeared(h, `up${ids[0]}`);
  await appeared(h, `up${ids[1]}`);
  assert.equal((await h.ok('GET', '/api/agents/ann')).agent.tasksLive, 2);
  assert.equal(has(h, `up${ids[2]}`), false);
  put(h, `go${ids[1]}`);
  await appeared(h, `up${ids[2]}`);
  for (const id of ids) put(h, `go${id}`);
  for (const id of ids) await reached(h, id, 'completed');
  await stop(running);
});

test('an agent whose runner is killed: what it held is handed out again', async (t) => {
  const h = await house(t, short);
  await lead(h);
  const id = await mail(h, 'one');
  const first = agent(h, 'boss', 'touch "$dir/up"; exec sleep 300');
  await appeared(h, 'up');
  assert.equal((await message(h, id)).status, 'processing');
  first.kill('SIGKILL');
  const second = agent(h, 'boss', 'true');
  await until('it is read', async () => (await message(h, id)).status === 'read');
  await stop(second);
});

test('the second signal gives back every kind of trigger', async (t) => {
  const h = await house(t);
  await lead(h);
  const id = await mail(h, 'one');
  const running = agent(h, 'boss', 'touch "$dir/up"; exec sleep 300');
  await appeared(h, 'up');
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new'));
  await stop(running);
  assert.equal((await message(h, id)).status, 'unread');
});

test('the capacity of an agent is changed only when it is said; a new one is told', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/agents', { name: 'ann', maxTasks: 7 });
  const capacity = async (id) => (await h.ok('GET', `/api/agents/${id}`)).agent.maxTasks;
  const run = (...more) => drained(h, more, 'true');
  const plain = await run('--agent', 'ann');
  assert.equal(await capacity('ann'), 7);
  assert.doesNotMatch(plain.err, /there was no agent/);
  await run('--agent', 'ann', '--max', '3');
  assert.equal(await capacity('ann'), 3);
  await drained(h, ['--agent', 'ann'], 'true', { env: { MAX_CONCURRENT_TASKS: '4' } });
  assert.equal(await capacity('ann'), 4);
  assert.match((await run('--agent', 'anne')).err, /there was no agent 'anne': registered it now/);
  assert.equal(await capacity('anne'), 1);
});

test('DIBS_AGENT is the agent if --agent is not given', async (t) => {
  const h = await house(t);
  const env = { DIBS_AGENT: 'ann' };
  await h.ok('POST', '/api/agents', { name: 'ann' });
  const id = await h.task({ title: 'mine', assignee: 'ann' });
  const { err } = await drained(h, [], 'true', { env });
  assert.match(err, /, agent ann \(DIBS_AGENT\), up to 1 at once/);
  assert.equal((await show(h, id)).status, 'completed');
  const other = await drained(h, ['--agent', 'bob'], 'true', { env });
  assert.match(other.err, /, agent bob, up to 1 at once/);
});
