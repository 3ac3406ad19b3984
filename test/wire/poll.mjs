// SPDX-License-Identifier: MIT
// GET /api/poll: each trigger in its order and shape, with a lease; what wakes one who waits; what
// becomes of a trigger whose taker dies, is full, or has hung up.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';

const SHORT = { config: ['minTTL = 1s'] };

/** A daemon with a lead and two workers. */
async function swarm(t, options) {
  const h = await house(t, options);
  await h.ok('POST', '/api/agents', { name: 'lead', isLead: true, maxTasks: 9 });
  await h.ok('POST', '/api/agents', { name: 'ann', maxTasks: 2 });
  await h.ok('POST', '/api/agents', { name: 'bob' });
  return h;
}

const poll = async (h, agentId, more = {}) =>
  await h.ok('GET', `/api/poll?${new URLSearchParams({ agentId, ...more })}`);

const trigger = async (h, agentId, more) => (await poll(h, agentId, more)).trigger;

const parked = async (h) =>
  Number(/queue="parked"\} (\d+)/.exec((await h.get('/metrics')).text)?.[1] ?? -1);

/** A poll that waits: its answer comes in a box, as awaiting it here would wait for it. */
async function parkedPoll(h, agentId, more = {}) {
  const box = {};
  const before = await parked(h);
  box.answer = poll(h, agentId, { wait: '60s', ...more });
  await until(`${agentId} waits`, async () => await parked(h) === before + 1);
  return box;
}

const status = async (h, id) => (await h.ok('GET', `/api/tasks/${id}`)).task.status;

test('a lead is given offers, assigned tasks, messages, mentions, finished tasks, in this order',
  async (t) => {
    const h = await swarm(t);
    const done = await h.task({ id: 'done' });
    const offered = await h.task({ id: 'offered' });
    const assigned = await h.task({ id: 'assigned' });
    await h.ok('POST', `/api/tasks/${offered}/offer`, { agentId: 'lead' });
    await h.ok('POST', `/api/tasks/${assigned}/assign`, { agentId: 'lead' });
    for (let i = 0; i < 7; i++) {
      await h.ok('POST', '/api/inbox', { content: `message ${i}`, source: 'slack', user: 'U1',
        channel: 'C1', thread: `${i}.1`, matchedText: '@dibs' });
    }
    await h.ok('POST', '/api/channels', { id: 'general' });
    await h.ok('POST', '/api/channels/general/messages', { author: 'ann', content: '@lead hello' });
    await h.session('ann', { agentId: 'ann' });
    await h.ok('POST', `/api/tasks/${done}/claim`, { sessionId: 'ann' });
    await h.ok('POST', `/api/tasks/${done}/complete`, { sessionId: 'ann' });

    const first = await trigger(h, 'lead');
    assert.equal(first.type, 'task_offered');
    assert.equal(first.taskId, offered);
    assert.equal(first.task.status, 'reviewing');
    assert.ok(first.claim.token > 0 && first.claim.expiresAt);

    const second = await trigger(h, 'lead');
    assert.equal(second.type, 'task_assigned');
    assert.equal(second.taskId, assigned);
    assert.equal(second.task.status, 'in_progress');

    const third = await trigger(h, 'lead');
    assert.equal(third.type, 'slack_inbox_message');
    assert.equal(third.count, 5);
    assert.deepEqual(third.messages.map(({ content }) => content),
      [0, 1, 2, 3, 4].map((i) => `message ${i}`));
    for (const message of third.messages) {
      assert.equal(message.status, 'processing');
      assert.equal(message.matchedText, '@dibs');
      assert.ok(message.claim.token > 0);
    }
    assert.equal((await trigger(h, 'lead')).count, 2);

    const mentions = await trigger(h, 'lead');
    assert.equal(mentions.type, 'unread_mentions');
    assert.equal(mentions.mentionsCount, 1);
    assert.deepEqual(mentions.claimedChannels, ['general']);

    const finished = await trigger(h, 'lead');
    assert.equal(finished.type, 'tasks_finished');
    assert.equal(finished.count, 1);
    assert.equal(finished.tasks[0].id, done);
    assert.ok((await h.ok('GET', `/api/tasks/${done}`)).task.notifiedAt);

    const last = await poll(h, 'lead');
    assert.equal(last.trigger, null);
    assert.ok(last.nextPollMs >= 1000, 'it says when to ask again');
  });

test('accept and reject work after poll has made the offer a review', async (t) => {
  const h = await swarm(t);
  for (const id of ['yes', 'no']) {
    await h.task({ id });
    await h.ok('POST', `/api/tasks/${id}/offer`, { agentId: 'ann' });
  }
  assert.equal((await trigger(h, 'ann')).taskId, 'yes');
  assert.equal((await trigger(h, 'ann')).taskId, 'no');
  await h.ok('POST', '/api/tasks/yes/accept', { agentId: 'ann' });
  assert.equal(await status(h, 'yes'), 'assigned');
  await h.ok('POST', '/api/tasks/no/reject', { agentId: 'ann', reason: 'not mine' });
  const { task } = await h.ok('GET', '/api/tasks/no');
  assert.equal(task.status, 'open');
  assert.equal(task.rejectionReason, 'not mine');
  const mine = await trigger(h, 'ann');
  assert.equal(mine.type, 'task_assigned');
  assert.equal(mine.taskId, 'yes');
});

test('a review can be let go, and the task is offered again', async (t) => {
  const h = await swarm(t);
  await h.task({ id: 'o' });
  await h.ok('POST', '/api/tasks/o/offer', { agentId: 'ann' });
  const { claim } = await trigger(h, 'ann');
  const early = await h.post('/api/tasks/o/complete', { sessionId: 'ann', token: claim.token });
  assert.equal(early.json.error, 'TASK_NOT_CLAIMED', 'a review is no work on the task');
  await h.ok('POST', '/api/tasks/o/release', { sessionId: 'ann', token: claim.token });
  assert.equal(await status(h, 'o'), 'offered');
  assert.equal((await trigger(h, 'ann')).type, 'task_offered');
});

test('the pool is told to every worker, and one of them gets the task', async (t) => {
  const h = await swarm(t);
  const id = await h.task();
  for (const agent of ['ann', 'bob', 'ann']) {
    assert.deepEqual(await trigger(h, agent), { type: 'pool_tasks_available', count: 1 });
  }
  const got = await Promise.all(['ann', 'bob', 'ann', 'bob'].map((agent, i) =>
    trigger(h, agent, { claim: 'true', sessionId: `${agent}-${i}` })));
  const taken = got.filter((one) => one !== null);
  assert.equal(taken.length, 1);
  assert.equal(taken[0].type, 'pool_task_claimed');
  assert.equal(taken[0].taskId, id);
});

test('a worker at its capacity is given nothing, and the next as soon as one ends', async (t) => {
  const h = await swarm(t);
  for (const id of ['a', 'b', 'c']) await h.task({ id, assignee: 'ann' });
  await h.task({ id: 'd' });
  await h.ok('POST', '/api/tasks/d/offer', { agentId: 'ann' });
  assert.equal((await trigger(h, 'ann')).taskId, 'd', 'a review counts');
  assert.equal((await trigger(h, 'ann')).taskId, 'a');
  assert.equal(await trigger(h, 'ann'), null);
  assert.equal(await trigger(h, 'ann', { claim: 'true' }), null);
  const named = await h.post('/api/tasks/b/claim', { sessionId: 'ann' });
  assert.equal(named.json.error, 'TASK_NOT_CLAIMABLE');
  assert.match(named.json.message, /capacity/);
  const { answer } = await parkedPoll(h, 'ann');
  await h.ok('POST', '/api/tasks/a/complete', { sessionId: 'ann' });
  assert.equal((await answer).trigger.taskId, 'b');
});

test('whatever is for an agent wakes its waiting poll, and nobody else\'s', async (t) => {
  const h = await swarm(t);
  await h.ok('POST', '/api/channels', { id: 'general' });
  const bob = await parkedPoll(h, 'bob', { claim: 'true', types: 'never' });
  const cases = [
    ['task_offered', async () => {
      await h.task({ id: 'o' });
      await h.ok('POST', '/api/tasks/o/offer', { agentId: 'lead' });
    }],
    ['task_assigned', async () => { await h.task({ assignee: 'lead' }); }],
    ['slack_inbox_message', async () => { await h.ok('POST', '/api/inbox', { content: 'x' }); }],
    ['unread_mentions', async () => {
      await h.ok('POST', '/api/channels/general/messages', { author: 'ann', content: 'hi @lead' });
    }],
    ['tasks_finished', async () => {
      await h.task({ id: 'f' });
      await h.session('s', { agentId: 'ann' });
      await h.ok('POST', '/api/tasks/f/claim', { sessionId: 's' });
      await h.ok('POST', '/api/tasks/f/complete', { sessionId: 's' });
    }],
  ];
  for (const [type, make] of cases) {
    const { answer } = await parkedPoll(h, 'lead');
    await make();
    assert.equal((await answer).trigger?.type, type);
  }
  const { answer } = await parkedPoll(h, 'ann');
  await h.task({ type: 'other' });
  assert.equal((await answer).trigger.type, 'pool_tasks_available');
  assert.equal(await parked(h), 1, 'bob waits for tasks of a type that never came');
  await h.task({ type: 'never', id: 'at-last' });
  assert.equal((await bob.answer).trigger.taskId, 'at-last');
});

test('what was not acknowledged when its lease ends is handed out again', async (t) => {
  const h = await swarm(t, SHORT);
  await h.task({ id: 'o' });
  await h.ok('POST', '/api/tasks/o/offer', { agentId: 'lead' });
  await h.task({ id: 'a', assignee: 'lead', maxAttempts: 5 });
  await h.ok('POST', '/api/inbox', { content: 'x' });
  await h.ok('POST', '/api/channels', { id: 'c' });
  await h.ok('POST', '/api/channels/c/messages', { author: 'ann', content: '@lead' });
  await h.task({ id: 'f' });
  await h.session('s', { agentId: 'ann' });
  await h.ok('POST', '/api/tasks/f/claim', { sessionId: 's' });
  await h.ok('POST', '/api/tasks/f/complete', { sessionId: 's' });

  const types = ['task_offered', 'task_assigned', 'slack_inbox_message', 'unread_mentions',
    'tasks_finished'];
  const more = { ttlMs: 1000, ack: 'manual', wait: '30s' };
  for (const type of types) assert.equal((await trigger(h, 'lead', more)).type, type);
  // an expired task is for everyone, so a lead is not given it again
  const again = new Set(types.filter((type) => type !== 'task_assigned'));
  while (again.size > 0) {
    const { type, ...rest } = await trigger(h, 'lead', { ...more, ttlMs: 60_000 });
    assert.ok(again.delete(type), `${type} came again: ${JSON.stringify(rest)}`);
  }
  await h.ok('POST', '/api/notices/ack', { sessionId: 'lead', taskIds: ['f'] });
  assert.ok((await h.ok('GET', '/api/tasks/f')).task.notifiedAt);
  assert.equal(await status(h, 'a'), 'open');
});

test('what a poller took is free at once when its process is killed', async (t) => {
  const h = await swarm(t);
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  t.after(() => child.kill('SIGKILL'));
  await h.session('runner', { agentId: 'lead', pid: child.pid });
  await h.task({ id: 'a', assignee: 'lead' });
  await h.ok('POST', '/api/inbox', { content: 'x' });
  await h.ok('POST', '/api/channels', { id: 'c' });
  await h.ok('POST', '/api/channels/c/messages', { author: 'ann', content: '@lead' });
  const types = [];
  for (let i = 0; i < 3; i++) types.push((await trigger(h, 'lead', { sessionId: 'runner' })).type);
  assert.deepEqual(types, ['task_assigned', 'slack_inbox_message', 'unread_mentions']);
  const box = await parkedPoll(h, 'lead', { sessionId: 'other' });
  child.kill('SIGKILL');
  await once(child, 'exit');
  const first = await box.answer;
  const second = await poll(h, 'lead', { sessionId: 'other', wait: '10s' });
  assert.deepEqual([first.trigger.type, second.trigger.type].sort(),
    ['slack_inbox_message', 'unread_mentions']);
  await until('the task is back', async () => await status(h, 'a') === 'open');
});

test('nothing is taken for a poller that has hung up', async (t) => {
  const h = await swarm(t);
  const leaving = new AbortController();
  const asked = h.get('/api/poll?agentId=lead&wait=60s', { signal: leaving.signal })
    .catch(() => 'gone');
  await until('it waits', async () => await parked(h) === 1);
  leaving.abort();
  assert.equal(await asked, 'gone');
  await until('nobody waits', async () => await parked(h) === 0);
  await h.ok('POST', '/api/inbox', { content: 'x' });
  const { messages } = await h.ok('GET', '/api/inbox');
  assert.equal(messages[0].status, 'unread');
});

test('mentions that arrive while a channel is worked on come afterwards', async (t) => {
  const h = await swarm(t);
  await h.ok('POST', '/api/channels', { id: 'c' });
  const say = (content) => h.ok('POST', '/api/channels/c/messages', { author: 'ann', content });
  await say('@lead one');
  await say('@lead two, and @nobody, and lead@example.org, and @leader');
  const first = await trigger(h, 'lead');
  assert.equal(first.mentionsCount, 2);
  await say('@lead three');
  assert.equal(await trigger(h, 'lead'), null, 'the channel is being worked on');
  await h.ok('POST', '/api/mentions/release', { agentId: 'lead', sessionId: 'lead', read: true });
  const second = await trigger(h, 'lead');
  assert.equal(second.mentionsCount, 1);
  const { messages } = await h.ok('POST', '/api/channels/c/read',
    { agentId: 'lead', sessionId: 'lead' });
  assert.deepEqual(messages.map(({ content }) => content), ['@lead three']);
  assert.equal(await trigger(h, 'lead'), null);
});

test('a poll names an agent that is known, and waits in reason', async (t) => {
  const h = await swarm(t);
  const refused = async (query, code) => {
    const { json } = await h.get(`/api/poll?${query}`);
    assert.equal(json.error, code, query);
  };
  await refused('', 'INVALID_REQUEST');
  await refused('agentId=nobody', 'AGENT_NOT_FOUND');
  await refused('agentId=ann&wait=forever', 'INVALID_REQUEST');
  await refused('agentId=ann&ack=maybe', 'INVALID_REQUEST');
  await refused('agentId=ann&ttlMs=1', 'INVALID_REQUEST');
  await refused('agentId=ann&since=3', 'INVALID_REQUEST');
  await h.session('of-bob', { agentId: 'bob' });
  await refused('agentId=ann&sessionId=of-bob', 'INVALID_REQUEST');
  await h.task({ assignee: 'ann' });
  const head = await h.request('HEAD', '/api/poll?agentId=ann');
  assert.ok(head.status >= 400 && head.text === '', 'HEAD takes nothing');
  assert.equal((await trigger(h, 'ann')).type, 'task_assigned');
});

test('a task assigned for later wakes its agent when its time comes', async (t) => {
  const h = await house(t);
  for (const [i, ahead] of [700, 1500].entries()) {
    const agent = `w${i}`;
    await h.ok('POST', '/api/agents', { id: agent });
    const waiting = h.get(`/api/poll?agentId=${agent}&wait=20s`);
    await until('it waits', async () => /queue="parked"\} 1/.test((await h.get('/metrics')).text));
    const at = Date.now() + ahead;
    const id = await h.task({ assignee: agent, runAfter: new Date(at).toISOString() });
    assert.equal((await waiting).json.trigger?.taskId, id);
    assert.ok(Date.now() - at < 5000, 'it did not wait until its time was over');
  }
});

test('a shorter offerTTL is in force as soon as the settings are read again', async (t) => {
  const h = await house(t, { config: ['offerTTL = 1h'] });
  await h.ok('POST', '/api/agents', { id: 'amy' });
  await h.session('s', { agentId: 'amy' });
  const id = await h.task({ offeredTo: 'amy' });
  h.configure(['offerTTL = 1s']);
  h.daemon.kill('SIGHUP');
  await until('the offer is taken back', async () =>
    (await h.get(`/api/tasks/${id}`)).json.task.status === 'open');
});
