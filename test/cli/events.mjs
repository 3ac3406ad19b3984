// SPDX-License-Identifier: MIT
// dibs events, once and with --follow.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, until } from './lib/dibs.mjs';

const lines = (running) => running.out.split('\n').filter(Boolean);

test('events shows the last ones, or those behind a number, by type and task', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('events')).out, 'no events\n');
  for (let i = 1; i <= 5; i++) await p.dibs('task', 'add', `t${i}`);
  await p.dibs('claim', '2');
  const all = await p.dibs('events');
  assert.equal(lines(all).length, 7);
  assert.match(lines(all)[0], /^ +1 {2}\d\d:\d\d:\d\d {2}task:created +1 +\{/);
  assert.deepEqual(lines(await p.dibs('events', '-q', '-n', '2')), ['6', '7']);
  assert.deepEqual(lines(await p.dibs('events', '-q', '--since', '5')), ['6', '7']);
  assert.deepEqual(lines(await p.dibs('events', '-q', '--types', 'task:claimed')), ['7']);
  assert.deepEqual(lines(await p.dibs('events', '-q', '--task', '2')), ['2', '7']);
  const page = await p.json('events', '--since', '0', '-n', '3');
  assert.deepEqual(page.events.map((e) => e.id), [1, 2, 3]);
  assert.equal(page.last, 7);
  assert.equal((await p.dibs('events', '-n', '0')).code, 2);
  assert.equal((await p.dibs('events', '-f', '-n', '3')).code, 2);
});

test('--follow tells of what another process does, each event once and in order', async (t) => {
  const p = await place(t);
  const following = p.start('events', '--follow', '--since', '0', '--json');
  for (let i = 1; i <= 5; i++) await p.dibs('task', 'add', `t${i}`);
  await p.dibs('claim');
  await until('all have come', () => lines(following).length >= 7);
  const events = lines(following).map((line) => JSON.parse(line));
  assert.deepEqual(events.map((e) => e.id), [1, 2, 3, 4, 5, 6, 7]);
  assert.equal(events[6].type, 'task:claimed');
  following.kill('SIGINT');
  const { code, err } = await following.ended;
  assert.equal(code, 0);
  assert.equal(err, '');
});

test('--follow begins with what happens from now on', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'before');
  const following = p.start('events', '-f');
  await until('it tells of a task', async () => {
    await p.dibs('task', 'add', 'after');
    return following.out.includes('after');
  });
  assert.doesNotMatch(following.out, /before/);
  following.kill('SIGTERM');
  assert.equal((await following.ended).code, 0);
});

test('--follow filters by type', async (t) => {
  const p = await place(t);
  const args = ['events', '-f', '-q', '--since', '0', '--types', 'task:claimed,task:completed'];
  const following = p.start(...args);
  await p.dibs('task', 'add', 'a');
  await p.dibs('claim');
  await p.dibs('done', '1');
  await until('both have come', () => lines(following).length >= 2);
  assert.deepEqual(lines(following), ['3', '4']);
  following.kill('SIGTERM');
  await following.ended;
});

test('--follow ends when its reader is gone, even if nothing happens', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  const following = p.start('events', '-f', '--since', '0');
  await until('it has told the first', () => following.out.includes('task:created'));
  following.child.stdout.destroy();
  const { code, err } = await following.ended;
  assert.equal(code, 0);
  assert.equal(err, '');
});
