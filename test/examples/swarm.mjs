// SPDX-License-Identifier: MIT
// examples/swarm: the demo as it stands, and that it did each piece of work exactly once.
// test-timeout: 180
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Place, program } from '../cli/lib/dibs.mjs';

const root = process.env.DIBS_SOURCE_ROOT ?? join(import.meta.dirname, '../..');
const upTo = (n, make) => Array.from({ length: n }, (_, i) => make(i + 1));

test('a lead and two workers do every trigger exactly once, and leave nothing', async (t) => {
  const p = new Place(t);
  const kept = join(p.dir, 'notes');
  const env = { PATH: `${dirname(program)}:${process.env.PATH}`, SWARM_KEEP: kept, TMPDIR: p.dir };
  const demo = p.spawn(join(root, 'examples/swarm/run-demo.sh'), [], { env, timeout: 150_000 });
  const { code, out, err } = await demo.ended;
  assert.equal(code, 0, out + err);
  assert.match(out, /== each exactly once\n$/);

  const notes = readFileSync(kept, 'utf8').trimEnd().split('\n').map((line) => line.split(' '));
  const of = (...types) => notes.filter((note) => types.includes(note[1]));
  const ids = (list) => list.map((note) => note[2]).sort();
  const work = of('pool_task_claimed', 'task_assigned');
  const wanted = ['fence', 'wall', 'late', ...upTo(6, (i) => `pool-${i}`),
    ...upTo(2, (i) => `for-ann-${i}`)];
  const made = ids(work).filter((id) => !wanted.includes(id));
  assert.equal(made.length, 3, 'a task for each message that asked for something');
  assert.deepEqual(ids(work), [...wanted, ...made].sort());
  assert.deepEqual(ids(of('task_offered')), ['fence', 'wall']);
  assert.deepEqual(ids(of('slack_inbox_message')),
    ['question-late', ...upTo(3, (i) => `question-${i}`), ...upTo(3, (i) => `wish-${i}`)].sort());
  assert.deepEqual(ids(of('unread_mentions')).map((id) => id.split('/')[0]),
    ['general', 'general', 'general', 'random', 'random', 'random']);
  assert.deepEqual(ids(of('tasks_finished')), ids(work));
  assert.equal(notes.length, work.length * 2 + 2 + 7 + 6);

  const by = (agent, list) => list.filter((note) => note[0] === agent);
  assert.deepEqual(ids(by('ann', of('task_assigned'))), ['fence', 'for-ann-1', 'for-ann-2']);
  assert.equal(by('boss', work).length, 0);
  const [, dir] = /a daemon in (\S+)/.exec(out);
  assert.ok(!existsSync(dir), 'the folder is gone');
});
