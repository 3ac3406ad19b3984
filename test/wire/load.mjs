// SPDX-License-Identifier: MIT
// test-timeout: 240
// test-parallel: no
// Many connections on one queue, some of which lose what they claimed: nothing is granted twice at
// the same time, nothing is lost, nothing that was acknowledged is missing. DIBS_TEST_SCALE=5 runs
// it with 100,000 tasks instead of 20,000; DIBS_TEST_SEED chooses other random numbers.
import assert from 'node:assert/strict';
import test from 'node:test';

import { Client, Gone, percentile, randomFrom } from './lib/client.mjs';
import { house, until } from './lib/daemon.mjs';
import { Follower } from './lib/follower.mjs';
import { Judge, readJournal } from './lib/journal.mjs';

const SCALE = Number(process.env.DIBS_TEST_SCALE ?? 1);
const TASKS = Math.round(Math.min(100_000, Math.max(600, 20_000 * SCALE)));
const CONNECTIONS = 64;
const SEED = Number(process.env.DIBS_TEST_SEED ?? 1);
const SHORT_MS = 1000; // the lease of what may be lost
const LONG_MS = 600_000;
const REFUSALS = ['TASK_ALREADY_CLAIMED', 'TASK_NOT_CLAIMABLE', 'SESSION_NOT_FOUND'];

/** What the callers were told, and what they may therefore rely on. */
class Ledger {
  constructor() {
    this.grants = new Map(); // token -> {taskId, sessionId}
    this.completions = new Map(); // task id -> token
    this.others = []; // {type, taskId, token} of releases and failures
    this.working = new Map(); // task id -> the grant somebody works on
    this.waits = [];
    this.lost = { forgotten: 0, unheard: 0, cut: 0, late: 0 };
  }

  /** A grant was heard of; nobody may hear of another one of the task before its lease is over. */
  granted(grant) {
    const { taskId, token, sessionId } = grant;
    const before = this.grants.get(token);
    assert.ok(!before || (before.taskId === taskId && before.sessionId === sessionId),
      `token ${token} was given to ${JSON.stringify(before)} and ${JSON.stringify(grant)}`);
    const other = this.working.get(taskId);
    if (other && other.token !== token) {
      assert.ok(other.isEnding || performance.now() >= other.until,
        `task ${taskId} is held by ${other.sessionId} and was granted to ${sessionId}`);
    }
    assert.ok(!this.completions.has(taskId), `task ${taskId} was completed and granted again`);
    this.grants.set(token, grant);
    if (!other || other.token <= token) this.working.set(taskId, grant);
  }
}

/** One connection with its session: claims in all ways, ends claims in all ways. */
class Worker {
  constructor(h, number, ledger) {
    this.id = `w${number}`;
    this.client = new Client(h);
    this.random = randomFrom(SEED * 1000 + number);
    this.ledger = ledger;
    this.asleep = []; // grants it comes back to when their lease is over
  }

  async run(isDone) {
    while (!isDone()) {
      try {
        if (performance.now() > this.asleep[0]?.until) await this.complete(this.asleep.shift());
        const grants = this.random.chance(0.25) ? await this.claimNamed() : await this.claimNext();
        for (const grant of grants) {
          await this.work(grant).catch((error) => this.repeat(error, grant));
        }
      } catch (error) {
        if (!(error instanceof Gone)) throw error;
      }
    }
    this.client.drop();
  }

  /** Nobody heard how a claim ended: says it again, as a client should. */
  async repeat(error, grant) {
    if (!(error instanceof Gone)) throw error;
    const { taskId, token } = error.grant ?? grant;
    const result = { token, by: this.id };
    const { status } = await this.ask(`/api/tasks/${taskId}/complete`,
      { sessionId: this.id, token, result });
    if (status === 200) this.ledger.completions.set(taskId, token);
  }

  async ask(path, body) {
    const began = performance.now();
    const answer = await this.client.post(path, body);
    assert.ok(answer.status < 500, `${path}: ${answer.status} ${answer.text}`);
    return { ...answer, began };
  }

  /** Sends and hangs up before it can be answered. */
  cut(path, body) {
    this.ledger.lost.cut++;
    const asked = this.client.post(path, body);
    const sent = new Promise((done) => { this.client.socket.write('', done); });
    const after = this.random.chance(0.5) ? sent : Promise.resolve();
    after.then(() => this.client.drop());
    return asked;
  }

  grant(taskId, token, attempts, ttl, began) {
    const grant = { taskId, token, attempts, ttl, sessionId: this.id, until: began + ttl };
    this.ledger.granted(grant);
    return grant;
  }

  ttl() {
    return this.random.chance(0.12) ? SHORT_MS : LONG_MS;
  }

  async claimNext() {
    const ttl = this.ttl();
    const body = { worker_id: this.id, ttl_ms: ttl };
    if (this.random.chance(0.5)) body.wait_ms = 100;
    if (this.random.chance(0.3)) body.count = 1 + this.random.below(8);
    if (this.random.chance(0.1)) body.sort_by = 'random';
    if (this.random.chance(0.02)) await this.cut('/api/tasks/claim', { ...body, ttl_ms: SHORT_MS });
    const { status, json, began } = await this.ask('/api/tasks/claim', body);
    if (status === 404) return [];
    assert.equal(status, 200);
    if (!body.wait_ms) this.ledger.waits.push(performance.now() - began);
    return (json.tasks ?? [json.task]).map((task) =>
      this.grant(task.id, task.token, task.attempts, ttl, began));
  }

  async claimNamed() {
    const ttl = this.ttl();
    const taskId = `t${this.random.below(TASKS)}`;
    const path = `/api/tasks/${taskId}/claim`;
    const body = { sessionId: this.id, ttlMs: ttl };
    if (this.random.chance(0.02)) await this.cut(path, { ...body, ttlMs: SHORT_MS });
    const { status, json, text, began } = await this.ask(path, body);
    if (status !== 200) {
      assert.ok(REFUSALS.includes(json.error), text);
      return [];
    }
    return [this.grant(taskId, json.claim.token, json.claim.attempt, ttl, began)];
  }

  async work(grant) {
    const { random } = this;
    if (grant.ttl === SHORT_MS && random.chance(0.5)) {
      this.ledger.lost.forgotten++;
      if (random.chance(0.5)) this.asleep.push(grant);
      return;
    }
    if (random.chance(0.05)) await this.heartbeat(grant);
    const mayFail = grant.attempts === 1; // the next attempt comes a second later, then two, four
    if (random.chance(0.05)) await this.end(grant, 'release', { reason: 'manual' });
    else if (random.chance(0.04) && mayFail) await this.end(grant, 'fail', { error: 'x' });
    else if (random.chance(0.4)) await this.completeAndGoOn(grant);
    else await this.complete(grant);
  }

  async heartbeat({ taskId, token, ttl, until: end }) {
    const { status, text } = await this.ask(`/api/tasks/${taskId}/claim/heartbeat`,
      { sessionId: this.id, token });
    assert.ok(status === 200 || (ttl === SHORT_MS && performance.now() >= end), text);
  }

  async complete(grant, more = {}) {
    const result = { token: grant.token, by: this.id };
    const answer = await this.end(grant, 'complete', { result, ...more });
    if (answer?.status === 200) this.ledger.completions.set(grant.taskId, grant.token);
    return answer;
  }

  async completeAndGoOn(grant) {
    for (let steps = 5; grant && steps > 0; steps--) {
      const answer = await this.complete(grant, { claimNext: { ttlMs: LONG_MS } });
      const next = answer?.status === 200 ? answer.json.next : undefined;
      grant = next && this.grant(next.task.id, next.claim.token, next.claim.attempt, LONG_MS,
        answer.began);
    }
    if (grant) await this.complete(grant);
  }

  /** Ends a claim; what was held for long enough may be refused, and then somebody else has it. */
  async end(grant, how, body) {
    const path = `/api/tasks/${grant.taskId}/${how}`;
    const whole = { sessionId: this.id, token: grant.token, ...body };
    grant.isEnding = true;
    if (this.random.chance(0.02)) {
      this.ledger.lost.unheard++;
      if (whole.claimNext) whole.claimNext = { ttlMs: SHORT_MS };
      return await this.cut(path, whole)
        .catch((error) => { throw Object.assign(error, { grant }); });
    }
    const answer = await this.ask(path, whole);
    if (answer.status !== 200) {
      assert.ok(performance.now() >= grant.until, `${path}: ${answer.text}`);
      this.ledger.lost.late++;
    } else if (how !== 'complete') {
      const type = how === 'fail' ? 'task:failed' : 'task:released';
      this.ledger.others.push({ type, token: grant.token });
    }
    return answer;
  }
}

async function makeTasks(client) {
  for (let i = 0; i < TASKS; i += 500) {
    const some = Array.from({ length: Math.min(500, TASKS - i) }, (_, k) =>
      ({ id: `t${i + k}`, title: 'load', maxAttempts: 0, priority: (i + k) % 101 }));
    assert.equal((await client.post('/api/tasks', some)).status, 201);
  }
}

/** Everything that was acknowledged is in the journal, under its token. */
function compare(ledger, judge) {
  for (const { taskId, token, sessionId } of ledger.grants.values()) {
    const known = judge.granted.get(token);
    assert.ok(known, `the grant ${token} of task ${taskId} is not in the journal`);
    assert.deepEqual([known.taskId, known.sessionId], [taskId, sessionId]);
  }
  for (const [taskId, token] of ledger.completions) {
    const { sessionId } = ledger.grants.get(token);
    assert.deepEqual(judge.completed.get(taskId),
      { token, sessionId, result: { token, by: sessionId } });
  }
  for (const { type, token } of ledger.others) assert.equal(judge.granted.get(token).end, type);
}

async function readCompleted(client) {
  const all = new Map();
  let cursor;
  do {
    const more = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
    const { status, json, text } =
      await client.get(`/api/tasks?status=completed&limit=1000${more}`);
    assert.equal(status, 200, text);
    for (const task of json.tasks) all.set(task.id, task);
    cursor = json.nextCursor;
  } while (cursor);
  return all;
}

test(`${CONNECTIONS} connections, ${TASKS} tasks: none granted twice, none lost`, async (t) => {
  const h = await house(t, { config: ['minTTL = 1s', 'maxTTL = 1h', 'expiringThreshold = 0'] });
  const client = new Client(h);
  t.after(() => client.drop());
  const completed = new Set();
  const follower = new Follower(h, {
    onEvent: ({ type, data }) => { if (type === 'task:completed') completed.add(data.taskId); },
  });
  t.after(() => follower.close());
  await makeTasks(client);

  const ledger = new Ledger();
  const workers = Array.from({ length: CONNECTIONS }, (_, i) => new Worker(h, i, ledger));
  const began = performance.now();
  await Promise.all(workers.map((worker) => worker.run(() => completed.size === TASKS)));
  const seconds = (performance.now() - began) / 1000;

  const journal = await readJournal(client);
  const judge = new Judge().follow(journal);
  assert.equal(judge.completed.size, TASKS, 'nothing is lost');
  compare(ledger, judge);
  await until('the stream has all of it', () => follower.last >= journal.at(-1).id);
  assert.deepEqual(follower.events.map(({ data }) => data), journal, 'the stream is the journal');

  const stored = await readCompleted(client);
  assert.equal(stored.size, TASKS);
  for (const [taskId, token] of ledger.completions) {
    assert.equal(stored.get(taskId).result.token, token);
  }
  const c = judge.counts;
  for (const lost of ['forgotten', 'unheard', 'cut']) assert.ok(ledger.lost[lost] > 0, lost);
  assert.ok(c['task:claim-expired'] > 0 && c['task:released'] > 0 && c['task:failed'] > 0);
  t.diagnostic(`${TASKS} tasks in ${seconds.toFixed(1)} s, ${judge.granted.size} grants, `
    + `${c['task:claim-expired']} expired, ${c['task:released']} released, `
    + `${c['task:failed']} failed, lost on purpose ${JSON.stringify(ledger.lost)}; claim p50 `
    + `${percentile(ledger.waits, 0.5).toFixed(1)} ms, `
    + `p99 ${percentile(ledger.waits, 0.99).toFixed(1)} ms`);

  const { code, err } = await h.stop();
  assert.equal(code, 0, err);
  const { code: doctor, out } = await h.dibs('doctor', '--deep');
  assert.equal(doctor, 0, out);
});
