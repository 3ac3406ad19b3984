// SPDX-License-Identifier: MIT
// test-timeout: 600
// test-parallel: no
// The daemon is killed, or stopped, under load, again and again on the same ageing store: whatever
// was answered is there afterwards, and readers of events miss nothing and see nothing twice.
// DIBS_TEST_SCALE=5 does it 50 times with 100,000 tasks in the store.
import assert from 'node:assert/strict';
import test from 'node:test';

import { Client, Gone, percentile, randomFrom } from './lib/client.mjs';
import { house, until } from './lib/daemon.mjs';
import { Follower } from './lib/follower.mjs';
import { Judge, readJournal } from './lib/journal.mjs';

const SCALE = Number(process.env.DIBS_TEST_SCALE ?? 1);
const ROUNDS = Math.min(50, Math.max(2, Math.round(20 * SCALE)));
const TASKS = SCALE >= 5 ? 100_000 : Math.round(Math.max(1000, 5000 * SCALE));
const CLIENTS = 24;
const SEED = Number(process.env.DIBS_TEST_SEED ?? 1);
const TTL_MS = 5000;

/** What was acknowledged since the last kill. */
class Round {
  constructor(number, killAfter, kill) {
    this.number = number;
    this.left = killAfter;
    this.kill = kill;
    this.created = [];
    this.grants = [];
    this.completed = [];
    this.locks = [];
    this.isOver = false;
  }

  get count() {
    const { created, grants, completed, locks } = this;
    return created.length + grants.length + completed.length + locks.length;
  }

  acked(list, ...items) {
    list.push(...items);
    this.left--;
    if (this.left > 0 || this.isOver) return;
    this.isOver = true;
    this.kill();
  }
}

/** A client that lives through the kills. */
class Worker {
  constructor(h, number) {
    this.id = `w${number}`;
    this.client = new Client(h);
    this.random = randomFrom(SEED * 1000 + number);
    this.held = [];
    this.made = 0;
  }

  async run(round) {
    this.round = round;
    this.held = [];
    try {
      if (this.unsure) await this.repeat();
      while (!round.isOver) await this.step();
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
      round.isOver = true;
    }
    this.client.drop();
  }

  async step() {
    const { random } = this;
    if (this.held.length > 0 && random.chance(0.6)) await this.complete(this.held.shift());
    else if (random.chance(0.2)) await this.create(1 + random.below(6));
    else if (random.chance(0.1)) await this.createMuch();
    else if (random.chance(0.2)) await this.lock();
    else if (random.chance(0.15)) await this.claimOnce();
    else await this.claim();
  }

  async ask(path, body, headers) {
    const answer = await this.client.post(path, body, headers);
    if (answer.status === 503 && this.round.isOver) throw new Gone('it stops');
    assert.ok(answer.status < 500, `${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  async create(count) {
    const tasks = Array.from({ length: count }, () =>
      ({ id: `${this.id}-${this.round.number}-${this.made++}`, title: 'x', maxAttempts: 0 }));
    const { status, text } = await this.ask('/api/tasks', tasks);
    assert.equal(status, 201, text);
    this.round.acked(this.round.created, ...tasks.map(({ id }) => id));
  }

  /** So many at once that their commit takes its time: an answer before it would be found out. */
  async createMuch() {
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => this.create(40)));
    const failed = all.find(({ status }) => status === 'rejected');
    if (failed) throw failed.reason;
  }

  grant(taskId, token, sessionId = this.id) {
    this.held.push({ taskId, token, sessionId });
    return { taskId, token, sessionId };
  }

  async claim() {
    const count = 1 + this.random.below(3);
    const { status, json, text } = await this.ask('/api/tasks/claim',
      { worker_id: this.id, ttl_ms: TTL_MS, count });
    assert.equal(status, 200, text);
    const tasks = json.tasks ?? [json.task];
    this.round.acked(this.round.grants, ...tasks.map(({ id, token }) => this.grant(id, token)));
  }

  /** Under an idempotency key, for a session that claims only this once. */
  async claimOnce() {
    this.unsure = `${this.id}-once-${this.round.number}-${this.made++}`;
    await this.repeat();
  }

  async repeat() {
    const { status, json, text } = await this.ask('/api/tasks/claim',
      { worker_id: this.unsure, ttl_ms: TTL_MS }, `Idempotency-Key: ${this.unsure}\r\n`);
    assert.equal(status, 200, text);
    this.round.acked(this.round.grants, this.grant(json.task.id, json.task.token, this.unsure));
    this.unsure = undefined;
  }

  /** May be late, and then be refused; what is acknowledged counts. */
  async complete({ taskId, token, sessionId }) {
    const wantsNext = sessionId === this.id && this.random.chance(0.5);
    const { status, json } = await this.ask(`/api/tasks/${taskId}/complete`,
      { sessionId, token, ...(wantsNext ? { claimNext: { ttlMs: TTL_MS } } : {}) });
    if (status !== 200) return;
    const { next } = json;
    if (next) this.round.grants.push(this.grant(next.task.id, next.claim.token, sessionId));
    this.round.acked(this.round.completed, { taskId, token, sessionId });
  }

  async lock() {
    const resource = `r${this.random.below(50)}`;
    await this.ask('/api/sessions', { id: this.id });
    const { status, json } = await this.ask('/api/locks',
      { resource, sessionId: this.id, ttlMs: TTL_MS });
    if (status >= 300) return;
    this.round.acked(this.round.locks, { token: json.lock.token, resource, sessionId: this.id });
    if (this.random.chance(0.5)) await this.client.send('DELETE', '/api/locks',
      { resource, sessionId: this.id });
  }
}

function assertKept(round, judge) {
  for (const id of round.created) assert.ok(judge.tasks.has(id), `task ${id} is gone`);
  for (const { taskId, token, sessionId } of round.grants) {
    const known = judge.granted.get(token);
    assert.deepEqual([known?.taskId, known?.sessionId], [taskId, sessionId], `grant ${token}`);
  }
  for (const { taskId, token, sessionId } of round.completed) {
    const known = judge.completed.get(taskId);
    assert.deepEqual([known?.token, known?.sessionId], [token, sessionId], `task ${taskId}`);
  }
  for (const { token, resource, sessionId } of round.locks) {
    assert.deepEqual(judge.locks.get(token), { resource, sessionId }, `lock ${token}`);
  }
}

/** The tables say the same as the journal, for some of what was acknowledged. */
async function assertTables(client, round, judge) {
  const completed = round.completed.map(({ taskId }) => taskId);
  for (const id of [...round.created.slice(-20), ...completed.slice(-20)]) {
    const { status, json } = await client.get(`/api/tasks/${id}`);
    assert.equal(status, 200, id);
    assert.equal(json.task.status === 'completed', judge.completed.has(id), id);
  }
}

function assertClaimedOnce(judge) {
  const seen = new Set();
  for (const { sessionId } of judge.granted.values()) {
    if (!sessionId.includes('-once-')) continue;
    assert.ok(!seen.has(sessionId), `${sessionId} asked once, was answered again, and got two`);
    seen.add(sessionId);
  }
}

/** Each follower has seen what it asked for, in order, once. */
async function assertTold(followers, told) {
  for (const { events, opened, more } of followers) {
    const wanted = told.filter(({ type }) => !more.query || type === 'task:completed');
    await until('all is told', () => Number(events.at(-1)?.id) >= wanted.at(-1).id);
    const seen = events.slice(0, wanted.length); // a lease may have ended since
    assert.deepEqual(seen.map(({ id }) => Number(id)), wanted.map(({ id }) => id));
    assert.deepEqual(seen.at(-1).data, wanted.at(-1));
    assert.ok(opened > ROUNDS);
  }
}

async function fill(client) {
  for (let i = 0; i < TASKS; i += 1000) {
    const some = Array.from({ length: Math.min(1000, TASKS - i) }, (_, k) =>
      ({ id: `t${i + k}`, title: 'crash', maxAttempts: 0 }));
    assert.equal((await client.post('/api/tasks', some)).status, 201);
  }
}

const ends = { SIGKILL: { code: null, signal: 'SIGKILL' }, SIGTERM: { code: 0, signal: null } };

for (const how of ['SIGKILL', 'SIGTERM']) test(`${ROUNDS} times ${how} under load with ${TASKS} `
  + 'tasks: it keeps what it promised', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s', 'expiringThreshold = 0'] });
  const random = randomFrom(SEED);
  const client = new Client(h);
  t.after(() => client.drop());
  await fill(client);
  const judge = new Judge().follow(await readJournal(client));
  const followers = ['', '', 'types=task:completed'].map((query) =>
    new Follower(h, { id: judge.number, query }));
  t.after(() => followers.forEach((follower) => follower.close()));
  const workers = Array.from({ length: CLIENTS }, (_, i) => new Worker(h, i));
  const first = judge.number;
  const told = [];
  const ready = [];
  let acks = 0;
  for (let number = 0; number < ROUNDS; number++) {
    let isUp;
    const round = new Round(number, 50 + random.below(800), () => h.daemon.kill(how));
    const up = new Promise((done) => { isUp = done; });
    h.isUp = () => up;
    await Promise.all(workers.map((worker) => worker.run(round)));
    const { code, signal, err } = await h.daemon.ended;
    assert.deepEqual({ code, signal }, ends[how], err);
    const began = performance.now();
    await h.start();
    await until('it is ready', async () => (await client.get('/readyz')).status === 200);
    ready.push(performance.now() - began);
    isUp();
    const news = await readJournal(client, judge.number);
    told.push(...news);
    judge.follow(news);
    assertKept(round, judge);
    await assertTables(client, round, judge);
    acks += round.count;
  }
  assertClaimedOnce(judge);
  await assertTold(followers, told);
  t.diagnostic(`${ROUNDS} times, ${acks} acknowledged things kept, ${judge.number - first} events; `
    + `ready after p50 ${percentile(ready, 0.5).toFixed(0)} ms, `
    + `worst ${ready.at(-1).toFixed(0)} ms`);
  assert.ok(ready.at(-1) < 5000);

  const { code, err } = await h.stop();
  assert.equal(code, 0, err);
  const { code: doctor, out } = await h.dibs('doctor', '--deep');
  assert.equal(doctor, 0, out);
});
