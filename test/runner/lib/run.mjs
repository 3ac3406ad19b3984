// SPDX-License-Identifier: MIT
// A real `dibs run` on a real daemon, with small scripts as commands. Scripts say what they do in
// files of the house's folder; tests wait for those, or for what the daemon tells, with a deadline.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { House, house, program, Running, until } from '../../wire/lib/daemon.mjs';

export { House, house, program, Running, until };

const RUN_MS = 100_000;
/** Leases may be as short as tests need them. */
export const short = { config: ['minTTL=1s', 'heartbeatInterval=500ms'] };

/** Starts `dibs run` with these arguments. `more`: env, url (by URL instead of the folder). */
export function runner(h, args, more = {}) {
  const where = more.url ? ['--url', more.url] : ['--data', h.data];
  const running = new Running(program, [...where, 'run', ...args], { cwd: h.dir,
    env: { dir: h.dir, dibs: program, HOME: h.dir, ...more.env }, timeout: RUN_MS });
  h.started.push(running);
  return running;
}

/** The same with a line of shell as the command; $dir is the house's folder, $dibs the program. */
export function shell(h, options, script, more) {
  return runner(h, [...options, '--', 'sh', '-c', script], more);
}

/** Runs until there is nothing left, and returns {code, out, err}. */
export async function drained(h, options, script, more) {
  const ended = await shell(h, ['--drain-when-empty', ...options], script, more).ended;
  assert.equal(ended.signal, null, ended.err);
  return ended;
}

export const file = (h, name) => join(h.dir, name);
export const put = (h, name, text = '') => writeFileSync(file(h, name), text);
export const has = (h, name) => existsSync(file(h, name));
export const text = (h, name) => (has(h, name) ? readFileSync(file(h, name), 'utf8') : '');
export const lines = (h, name) => text(h, name).split('\n').filter((line) => line !== '');
export const appeared = (h, name) => until(`the file ${name}`, () => has(h, name));

/** The task as the daemon shows it. */
export async function show(h, id) {
  return (await h.ok('GET', `/api/tasks/${id}`)).task;
}

/** Waits until the task has this status, and returns it. */
export async function reached(h, id, status) {
  return await until(`task ${id} is ${status}`, async () => {
    const task = await show(h, id);
    return task.status === status ? task : null;
  });
}

export async function history(h, id) {
  return await h.ok('GET', `/api/tasks/${id}/history`);
}

/** Whether a process lives; a zombie does not. */
export function lives(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

export const gone = (pid) => until(`process ${pid} is gone`, () => !lives(pid));

/** The processes whose parent this is, also zombies. */
export function children(pid) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0]) === pid;
    } catch {
      return false;
    }
  }).map(Number);
}

/** Sends the signal and returns how the runner ended. */
export async function stop(running, signal = 'SIGTERM') {
  running.kill(signal);
  return await running.ended;
}
