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

test('a filter finds what happened long ago, and the last ones of many', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'old', '--project', 'p');
  await p.dibs('claim', '1');
  await p.dibs('done', '1');
  const many = Array.from({ length: 1100 }, (_, i) => ({ title: `t${i}`, id: `n${i}` }));
  await p.run(['task', 'import', '-q', '-'], { input: JSON.stringify(many) });
  const types = ['task:created', 'task:claimed', 'task:completed'];
  const ofOld = await p.json('events', '--task', '1');
  assert.deepEqual(ofOld.events.map((e) => e.type), types);
  assert.deepEqual(lines(await p.dibs('events', '-q', '--types', 'task:completed')), ['4']);
  assert.deepEqual(lines(await p.dibs('events', '-q', '--task', '1', '-n', '2')), ['3', '4']);
  assert.ok(lines(await p.dibs('events', '-q', '--project', 'p')).includes('1'));
  const last = await p.dibs('events', '-q', '--types', 'task:created', '-n', '1000');
  assert.deepEqual(lines(last).map(Number), Array.from({ length: 1000 }, (_, i) => 105 + i));
  assert.equal(lines(await p.dibs('events', '-q')).length, 50);
  assert.equal((await p.dibs('events', '--types', 'task:failed')).out, 'no events\n');
});

test('--follow says once that events were pruned, also when nothing matches', async (t) => {
  const p = await place(t);
  for (let i = 1; i <= 3; i++) await p.dibs('task', 'add', `t${i}`);
  const short = ['--event-retention', '1ms'];
  await until('the journal is pruned', async () => {
    await p.dibs('cleanup', '--type', 'events', ...short);
    return (await p.json('events', '--since', '0')).resync;
  });
  const following = p.start('events', '-f', '--since', '0', '--types', 'task:completed');
  await until('it has said so', () => following.err.includes('pruned'));
  await p.dibs('task', 'add', 'last');
  await p.dibs('claim', '4');
  await p.dibs('done', '4');
  await until('it tells of the task', () => following.out.includes('task:completed'));
  following.kill('SIGTERM');
  await following.ended;
  assert.equal(following.err.match(/have been pruned/g).length, 1, following.err);
  assert.equal(lines(following).length, 1);
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
