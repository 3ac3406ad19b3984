// SPDX-License-Identifier: MIT
// Reads the journal of a daemon and judges it: what a store may never do is found here, from the
// events alone.
import assert from 'node:assert/strict';

const PAGE = 1000;
const ENDS = ['task:released', 'task:claim-expired', 'task:claim-orphaned', 'task:failed',
  'task:completed', 'task:cancelled', 'task:blocked'];

/** All events after `since`, page by page. */
export async function readJournal(client, since = 0) {
  const all = [];
  for (;;) {
    const { status, json, text } =
      await client.get(`/api/events?since=${since}&limit=${PAGE}`);
    assert.equal(status, 200, text);
    assert.equal(json.resync, undefined, 'nothing was pruned');
    all.push(...json.events);
    if (json.events.length === 0) return all;
    since = json.events.at(-1).id;
  }
}

/**
 * Follows events in order and refuses what must never be: numbers with a gap, tokens that do not
 * grow, a task granted while somebody holds it, a lease ended before its deadline, a claim ended
 * twice, anything granted after the end.
 */
export class Judge {
  constructor() {
    this.number = 0;
    this.token = 0;
    this.tasks = new Map(); // id -> {token, sessionId, expiresAt} of the holder, or undefined
    this.granted = new Map(); // token -> {taskId, sessionId, end}
    this.completed = new Map(); // task id -> event
    this.locks = new Map(); // token -> {resource, sessionId}
    this.counts = {};
  }

  follow(events) {
    for (const event of events) this.event(event);
    return this;
  }

  event(event) {
    const { id, type } = event;
    assert.equal(id, this.number + 1, 'the journal has no gap');
    this.number = id;
    this.counts[type] = (this.counts[type] ?? 0) + 1;
    if (type === 'task:created') this.tasks.set(event.taskId, undefined);
    else if (type === 'task:claimed') this.claimed(event);
    else if (type === 'lock:taken') this.lockTaken(event);
    else if (type === 'leases:extended') this.extended(event);
    else if (ENDS.includes(type)) this.ended(event);
  }

  /** A renewal keeps its token; every grant has a larger one than all before. */
  claimed({ taskId, sessionId, data }) {
    const holder = this.tasks.get(taskId);
    assert.ok(this.tasks.has(taskId), `task ${taskId} was never made`);
    assert.ok(!this.completed.has(taskId), `task ${taskId} is completed and was granted again`);
    if (holder?.token === data.token) {
      assert.equal(holder.sessionId, sessionId);
      holder.expiresAt = data.expiresAt;
      return;
    }
    assert.equal(holder, undefined, `task ${taskId} granted twice: ${JSON.stringify(holder)}`);
    assert.ok(data.token > this.token, `token ${data.token} after ${this.token}`);
    this.token = data.token;
    const grant = { taskId, sessionId, token: data.token, expiresAt: data.expiresAt };
    this.tasks.set(taskId, grant);
    this.granted.set(data.token, grant);
  }

  lockTaken({ sessionId, data }) {
    assert.ok(data.token > this.token || this.locks.has(data.token), 'the tokens of locks grow');
    this.token = Math.max(this.token, data.token);
    this.locks.set(data.token, { resource: data.resource, sessionId });
  }

  extended() {
    for (const holder of this.tasks.values()) if (holder) holder.expiresAt = '';
  }

  ended({ type, taskId, sessionId, at, data }) {
    const holder = this.tasks.get(taskId);
    if (type === 'task:completed') {
      assert.ok(!this.completed.has(taskId), `task ${taskId} completed twice`);
      this.completed.set(taskId, { token: data.token, sessionId, result: data.result });
    }
    if (!holder) {
      assert.ok(data.late || data.final, `${type} of task ${taskId}, which nobody holds`);
      return;
    }
    assert.equal(holder.token, data.token, `${type} of task ${taskId} by another than its holder`);
    assert.equal(holder.sessionId, sessionId);
    if (type === 'task:claim-expired') {
      assert.ok(at >= holder.expiresAt, `task ${taskId} expired at ${at}, before its deadline `
        + holder.expiresAt);
    }
    holder.end = type;
    this.tasks.set(taskId, undefined);
  }
}
