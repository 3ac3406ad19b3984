// SPDX-License-Identifier: MIT
// dibs watch and dibs top, with and without a daemon.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, program, until } from './lib/dibs.mjs';

const lines = (running) => running.out.split('\n').filter(Boolean);
const both = [['without a daemon', { daemon: false }], ['with a daemon', { daemon: true }]];

for (const [how, more] of both) {
  test(`watch tells what happens from now on, ${how}`, async (t) => {
    const p = await place(t, more);
    await p.dibs('task', 'add', 'before');
    const watching = p.start('watch');
    await until('it tells of a task', async () => {
      await p.dibs('task', 'add', 'after');
      return watching.out.includes('after');
    });
    await p.as('ann', 'claim', '1');
    const claimed = /^ +\d+ {2}\d\d:\d\d:\d\d {2}task:claimed +1 +ann \{/m;
    await until('it tells of the claim', () => claimed.test(watching.out));
    assert.doesNotMatch(watching.out, /before/);
    watching.kill('SIGINT');
    const { code, err } = await watching.ended;
    assert.equal(code, 0);
    assert.equal(err, '');
  });

  test(`watch filters, begins behind a number, and speaks JSON, ${how}`, async (t) => {
    const p = await place(t, more);
    for (const title of ['a', 'b', 'c']) await p.dibs('task', 'add', title);
    await p.dibs('claim', '2');
    await p.dibs('done', '2');
    const watching = p.start('watch', '--since', '1', '--json', '--task', '2', '--types',
      'task:created,task:completed');
    await until('both have come', () => lines(watching).length >= 2);
    const events = lines(watching).map((line) => JSON.parse(line));
    assert.deepEqual(events.map((e) => [e.taskId, e.type]),
      [['2', 'task:created'], ['2', 'task:completed']]);
    watching.kill('SIGTERM');
    assert.equal((await watching.ended).code, 0);
    assert.equal((await p.dibs('watch', '--task', 'no such id')).code, 2);
  });

  test(`watch ends when nobody reads any more, ${how}`, async (t) => {
    const p = await place(t, more);
    await p.dibs('task', 'add', 'a');
    const { code, out } = await p.sh('"$dibs" watch --since 0 | head -n 1');
    assert.equal(code, 0);
    assert.match(out, /task:created/);
  });

  test(`top shows sessions and claims once when it is no terminal, ${how}`, async (t) => {
    const p = await place(t, more);
    await p.dibs('task', 'add', 'paint the fence');
    await p.as('ann', 'claim', '1');
    const { code, out } = await p.dibs('top');
    assert.equal(code, 0);
    assert.match(out, /^1 active, 0 stale sessions, 1 in flight; tasks: in_progress 1$/m);
    assert.match(out, /^ann +active .*paint the fence/m);
    assert.match(out, /^1 +paint the fence +ann .*healthy/m);
    assert.doesNotMatch(out, /\x1b/);
    assert.equal((await p.dibs('top', '--once')).code, 0);
    const json = await p.json('top');
    assert.equal(json.sessions[0].id, 'ann');
    assert.equal(json.inFlight[0].taskId, '1');
  });

  test(`top fills a terminal until q, and puts it back, ${how}`, async (t) => {
    const p = await place(t, more);
    await p.as('ann', 'session', 'register');
    const command = `${program} top --interval 250ms; stty -a`;
    const running = p.spawn('script', ['-qec', command, '/dev/null'], { input: null });
    await until('there are two pictures', () => running.out.split('\x1b[H\x1b[2J').length > 2);
    assert.match(running.out, /\x1b\[\?1049h/);
    running.child.stdin.write('q');
    const { out } = await running.ended;
    assert.match(out, /\x1b\[\?25h\x1b\[\?1049l/);
    assert.match(out.slice(out.lastIndexOf('1049l')), / icanon .* echo /s);
  });
}

test('watch goes on where it was when the daemon is back, and says so', async (t) => {
  const p = await place(t, { daemon: false });
  let daemon = await p.serve();
  const watching = p.start('watch', '--since', '0', '--json');
  await p.dibs('task', 'add', 'first');
  await until('it tells of the first', () => lines(watching).length >= 1);
  daemon.kill('SIGTERM');
  await daemon.ended;
  await until('it says that the daemon has gone', () => watching.err.includes('waiting for the'));
  await p.dibs('task', 'add', 'while it was away');
  daemon = await p.serve();
  await until('it says that it is back', () => watching.err.includes('connected again'));
  await p.dibs('task', 'add', 'last');
  const created = () => lines(watching).map((line) => JSON.parse(line))
    .filter((e) => e.type === 'task:created');
  await until('all have come', () => created().length >= 3);
  assert.deepEqual(created().map((e) => e.data.title), ['first', 'while it was away', 'last']);
  const ids = lines(watching).map((line) => JSON.parse(line).id);
  assert.deepEqual(ids, ids.map((_, i) => i + 1), 'each once and in order');
  watching.kill('SIGINT');
  assert.equal((await watching.ended).code, 0);
});
