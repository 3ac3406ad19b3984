// SPDX-License-Identifier: MIT
// dibs task import.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

const tasks = (count, from = 1) => Array.from({ length: count },
  (_, i) => ({ id: `t${i + from}`, title: `task ${i + from}` }));
const asLines = (list) => list.map((x) => JSON.stringify(x) + '\n').join('');

async function importing(p, text, ...options) {
  writeFileSync(join(p.dir, 'tasks'), text);
  return await p.dibs('task', 'import', 'tasks', ...options);
}

/** How many tasks there are. */
async function count(p) {
  const { stats } = await p.json('stats');
  return Object.values(stats.tasksByStatus).reduce((a, b) => a + b, 0);
}

test('2,500 lines become 2,500 tasks', async (t) => {
  const p = await place(t);
  const { code, out, err } = await importing(p, asLines(tasks(2500)));
  assert.equal(code, 0, err);
  assert.equal(out, 'created 2500 tasks\n');
  assert.equal(err, '', 'no progress where there is no terminal');
  assert.equal(await count(p), 2500);
});

test('a JSON array works as well, however it is laid out, also from standard input', async (t) => {
  const p = await place(t);
  const odd = [{ id: 'a', title: 'brackets ]}" \\ and , in text', params: { x: [[1], {}] } },
    { id: 'b', title: 'two' }];
  const { code, out, err } = await importing(p, `\n [\n${JSON.stringify(odd[0], null, 3)}\n,` +
    `${JSON.stringify(odd[1])}\n]\n`);
  assert.equal(code, 0, err);
  assert.equal(out, 'created 2 tasks\n');
  assert.equal((await p.json('task', 'show', 'a')).task.title, odd[0].title);
  const piped = await p.run(['task', 'import', '-'], { input: '[{"title":"c"}]' });
  assert.equal(piped.out, 'created 1 tasks\n');
  assert.equal((await p.run(['task', 'import', '-'], { input: ' [ ] ' })).out, 'created 0 tasks\n');
  assert.equal((await p.run(['task', 'import', '-'], { input: '' })).out, 'created 0 tasks\n');
});

test('a bad line is named and nothing of its chunk is created', async (t) => {
  const p = await place(t);
  const list = asLines(tasks(1500)).split('\n');
  list[1199] = '{"title": broken}';
  const { code, out, err } = await importing(p, list.join('\n'));
  assert.equal(code, 2);
  assert.equal(out, '');
  assert.match(err, /^dibs: line 1200: .*1000 tasks were created before it/);
  assert.equal(await count(p), 1000);
});

test('a task that is refused is named by its line', async (t) => {
  const p = await place(t);
  const list = tasks(10);
  list[4].priority = 500;
  const { code, err } = await importing(p, '\n\n' + asLines(list));
  assert.equal(code, 2);
  assert.match(err, /^dibs: line 7: /);
  assert.equal(await count(p), 0);
  const json = await p.json('task', 'import', 'tasks');
  assert.equal(json.success, false);
  assert.equal(json.line, 7);
  assert.equal(json.created, 0);
  const unknown = await importing(p, '{"title":"a","colour":"red"}\n');
  assert.equal(unknown.code, 2);
  assert.match(unknown.err, /line 1: .*colour/);
});

test('broken arrays are refused with the line', async (t) => {
  const p = await place(t);
  for (const [text, line] of [['[{"title":"a"}', 1], ['[{"title":"a"}\n{"title":"b"}]', 2],
    ['[\n{"title":"a"}]\nmore', 3], ['[{"title":"a"},]', 1], ['[,]', 1],
    ['[{"title":"a","title":"b"}]', 1], ['{"title":"a"', 1]]) {
    const { code, err } = await importing(p, text);
    assert.equal(code, 2, text);
    assert.match(err, new RegExp(`^dibs: line ${line}: `), `${text}: ${err}`);
  }
  assert.equal(await count(p), 0);
});

test('existing ids are exit code 8; --skip-existing creates the others', async (t) => {
  const p = await place(t);
  await importing(p, asLines(tasks(5)));
  const again = await importing(p, asLines(tasks(8)));
  assert.equal(again.code, 8);
  assert.match(again.err, /line 1: .*'t1'.*\ntry: --skip-existing/s);
  assert.equal(await count(p), 5);
  const twice = asLines([...tasks(8), ...tasks(3, 7)]);
  const skipped = await importing(p, twice, '--skip-existing');
  assert.equal(skipped.out, 'created 4 tasks, 7 were there already\n');
  const json = await p.json('task', 'import', 'tasks', '--skip-existing');
  assert.deepEqual(json, { success: true, created: 0, deduplicated: 0, skipped: 11 });
});

test('dedupe keys make an import repeatable', async (t) => {
  const p = await place(t);
  const text = asLines([{ title: 'a', dedupeKey: 'k1' }, { title: 'b', dedupeKey: 'k2' }]);
  assert.equal((await importing(p, text)).out, 'created 2 tasks\n');
  assert.equal((await importing(p, text)).out, 'created 0 tasks, 2 were there already\n');
});

test('large tasks are sent in smaller chunks', async (t) => {
  const p = await place(t);
  const text = 'x'.repeat(60_000);
  const list = tasks(40).map((x) => ({ ...x, description: text }));
  const { code, out, err } = await importing(p, JSON.stringify(list));
  assert.equal(code, 0, err);
  assert.equal(out, 'created 40 tasks\n');
});

test('--project is the project of tasks that name none', async (t) => {
  const p = await place(t);
  const text = asLines([{ title: 'a' }, { title: 'b', project: 'own' }]);
  await importing(p, text, '--project', 'web');
  assert.equal((await p.dibs('task', 'list', '-q', '--project', 'web')).out, '1\n');
  assert.equal((await p.dibs('task', 'list', '-q', '--project', 'own')).out, '2\n');
});

test('a file that cannot be read is exit code 2', async (t) => {
  const p = await place(t);
  const { code, err } = await p.dibs('task', 'import', 'nosuch');
  assert.equal(code, 2);
  assert.match(err, /^dibs: cannot open 'nosuch': /);
  assert.equal((await p.dibs('task', 'import', '.')).code, 2);
});

test('on a terminal a long import tells how far it is', async (t) => {
  const p = await place(t);
  writeFileSync(join(p.dir, 'tasks'), asLines(tasks(2500)));
  const { out } = await p.tty('"$dibs" task import tasks');
  assert.match(out, /\r1000 tasks \.\.\..*\r2000 tasks \.\.\./);
  assert.match(out, /created 2500 tasks/);
});
