// SPDX-License-Identifier: MIT
// test-timeout: 120
// 16 pollers at once on 1,000 mixed triggers, some of which are dropped on purpose: no trigger is
// in two hands at the same time, none is lost. DIBS_TEST_SCALE multiplies the triggers.
import assert from 'node:assert/strict';
import test from 'node:test';

import { Client, randomFrom } from './lib/client.mjs';
import { house } from './lib/daemon.mjs';

const SCALE = Number(process.env.DIBS_TEST_SCALE ?? 1);
const SEED = Number(process.env.DIBS_TEST_SEED ?? 1);
const EACH = Math.max(10, Math.round(200 * SCALE)); // of five kinds
const CHANNELS = 10;
const WORKERS = ['w1', 'w2', 'w3', 'w4'];
const LEADS = ['l1', 'l2'];
const SHORT_MS = 1000; // the lease of what is dropped
const LONG_MS = 600_000;

/** What was handed out, to whom, until when; and what was acknowledged. */
class Ledger {
  constructor() {
    this.held = new Map();
    this.done = new Set();
    this.dropped = 0;
  }

  take(key, who, until) {
    assert.ok(!this.done.has(key), `${key} was acknowledged and handed to ${who} again`);
    const before = this.held.get(key);
    assert.ok(!before || performance.now() >= before.until,
      `${key} is held by ${before?.who} and was handed to ${who}`);
    this.held.set(key, { who, until });
  }

  acknowledge(key) {
    this.held.delete(key);
    this.done.add(key);
  }
}

async function fill(h) {
  const ask = (path, body) => h.ok('POST', path, body);
  for (const name of LEADS) await ask('/api/agents', { name, isLead: true, maxTasks: 100 });
  for (const name of WORKERS) await ask('/api/agents', { name, maxTasks: 100 });
  const tasks = (prefix, make) =>
    ask('/api/tasks', Array.from({ length: EACH }, (_, i) =>
      ({ id: `${prefix}${i}`, title: 'x', maxAttempts: 0, ...make(i) })));
  await tasks('offer-', (i) => ({ offeredTo: WORKERS[i % 4] }));
  await tasks('pool-', () => ({}));
  await tasks('done-', () => ({ type: 'done' }));
  const worker = new Client(h);
  await worker.post('/api/sessions', { id: 'plain' });
  for (let i = 0; i < EACH; i++) {
    await worker.post(`/api/tasks/done-${i}/claim`, { sessionId: 'plain' });
    const { status } = await worker.post(`/api/tasks/done-${i}/complete`, { sessionId: 'plain' });
    assert.equal(status, 200);
  }
  for (let i = 0; i < EACH; i++) {
    const agentId = i % 2 ? undefined : LEADS[i % 4 === 0 ? 0 : 1];
    await worker.post('/api/inbox', { id: `m${i}`, content: 'x', agentId });
  }
  for (let c = 0; c < CHANNELS; c++) await worker.post('/api/channels', { id: `c${c}` });
  for (let i = 0; i < EACH; i++) {
    const path = `/api/channels/c${i % CHANNELS}/messages`;
    const { status } = await worker.post(path, { author: 'plain', content: `@${LEADS[i % 2]} x` });
    assert.equal(status, 201);
  }
  worker.drop();
}

/** One session of an agent: polls, and deals with what it is given; or drops it. */
class Poller {
  constructor(h, agent, number, ledger) {
    this.agent = agent;
    this.id = `${agent}-${number}`;
    this.client = new Client(h);
    this.random = randomFrom(SEED * 100 + number);
    this.ledger = ledger;
    this.reads = 0;
  }

  async run(isDone) {
    while (!isDone()) {
      const drops = this.random.chance(0.05);
      const ttl = drops ? SHORT_MS : LONG_MS;
      const began = performance.now();
      const { status, json, text } = await this.client.get(`/api/poll?agentId=${this.agent}`
        + `&sessionId=${this.id}&claim=true&ack=manual&ttlMs=${ttl}&wait=300ms`);
      assert.equal(status, 200, text);
      if (json.trigger) await this.handle(json.trigger, drops, began + ttl);
    }
    this.client.drop();
  }

  async ok(path, body) {
    const { status, json, text } = await this.client.post(path, body);
    assert.ok(status < 300, `${path} ${JSON.stringify(body)}: ${status} ${text}`);
    return json;
  }

  take(keys, until) {
    for (const key of keys) this.ledger.take(key, this.id, until);
  }

  async handle(trigger, drops, until) {
    const how = { task_offered: 'offer', task_assigned: 'task', pool_task_claimed: 'task',
      slack_inbox_message: 'messages', unread_mentions: 'mentions', tasks_finished: 'finished' };
    const name = how[trigger.type];
    assert.ok(name, `an unexpected trigger ${trigger.type}`);
    if (drops) this.ledger.dropped++;
    await this[name](trigger, drops, until);
  }

  async offer({ taskId }, drops, until) {
    const key = `review ${taskId}`;
    this.take([key], until);
    if (drops) return;
    this.ledger.acknowledge(key);
    await this.ok(`/api/tasks/${taskId}/accept`, { agentId: this.agent });
  }

  async task({ taskId, claim }, drops, until) {
    const key = `task ${taskId}`;
    this.take([key], until);
    if (drops) return;
    this.ledger.acknowledge(key);
    await this.ok(`/api/tasks/${taskId}/complete`, { sessionId: this.id, token: claim.token });
  }

  async messages({ messages }, drops, until) {
    this.take(messages.map(({ id }) => `message ${id}`), until);
    if (drops) return;
    for (const { id } of messages) {
      this.ledger.acknowledge(`message ${id}`);
      await this.ok(`/api/inbox/${id}/respond`, { sessionId: this.id, text: 'done' });
    }
  }

  async mentions({ channels }, drops, until) {
    this.take(channels.map(({ channelId }) => `${this.agent} ${channelId}`), until);
    if (drops) return;
    for (const { channelId, count } of channels) {
      this.ledger.held.delete(`${this.agent} ${channelId}`);
      const { messages } = await this.ok(`/api/channels/${channelId}/read`,
        { agentId: this.agent, sessionId: this.id, limit: 1000 });
      const mine = messages.filter(({ mentions }) => mentions.includes(this.agent));
      assert.ok(mine.length >= count, `${mine.length} of ${count} mentions`);
      for (const { id } of mine) {
        assert.ok(!this.ledger.done.has(`mention ${id}`), `mention ${id} was read twice`);
        this.ledger.done.add(`mention ${id}`);
      }
    }
  }

  async finished({ tasks }, drops, until) {
    this.take(tasks.map(({ id }) => `notice ${id}`), until);
    if (drops) return;
    for (const { id } of tasks) this.ledger.acknowledge(`notice ${id}`);
    const taskIds = tasks.map(({ id }) => id);
    const { acked } = await this.ok('/api/notices/ack', { sessionId: this.id, taskIds });
    assert.equal(acked, taskIds.length);
  }
}

test('16 pollers on 1,000 mixed triggers: none twice, none lost', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await fill(h);
  const ledger = new Ledger();
  // an accepted offer is a task as well; every task done by a worker is a notice for the leads
  const expected = EACH * (1 + 1 + 1 + 1 + 1) + EACH * 3;
  const isDone = () => ledger.done.size >= expected;
  const agents = [...LEADS, ...LEADS, ...WORKERS, ...WORKERS, ...WORKERS];
  await Promise.all(agents.map((agent, i) => new Poller(h, agent, i, ledger).run(isDone)));
  assert.equal(ledger.done.size, expected);
  const count = (prefix) => [...ledger.done].filter((key) => key.startsWith(prefix)).length;
  assert.equal(count('review '), EACH);
  assert.equal(count('task '), 2 * EACH);
  assert.equal(count('message '), EACH);
  assert.equal(count('mention '), EACH);
  assert.equal(count('notice '), 3 * EACH);
  assert.ok(SCALE < 1 || ledger.dropped > 0, 'some triggers were dropped');
  const checked = await h.dibs('doctor', '--deep');
  assert.equal(checked.code, 0, checked.out + checked.err);
});
