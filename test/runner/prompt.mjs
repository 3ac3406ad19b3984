// SPDX-License-Identifier: MIT
// Templates: what a command reads instead of JSON, or has as an argument.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { file, house, put, runner, show } from './lib/run.mjs';

/** The prompt that a task makes of a template. */
async function filled(h, template, task, program = ['cat'], more = []) {
  put(h, 'prompt.md', template);
  const id = await h.task({ type: 'p', ...task });
  const { code, err } = await runner(h, ['--once', '--type', 'p', '--prompt', file(h, 'prompt.md'),
    ...more, '--', ...program]).ended;
  assert.equal(code, 0, err);
  return (await show(h, id)).result.output;
}

test('placeholders become what the task says', async (t) => {
  const h = await house(t);
  const task = { id: 'T-1', title: 'a "title" with $HOME and `id`', description: 'two\nlines',
    params: { file: 'x.c', deep: { list: [10, { name: 'ä' }], no: null, yes: true } },
    metadata: { k: 'v' }, project: 'default', priority: 70, tags: ['a', 'b'] };
  const output = await filled(h, `# {{title}} ({{id}}, {{ type }})
{{description}} {{params.file}} {{params.deep.list.1.name}} {{params.deep.list.0}}
{{params.deep.yes}}|{{params.deep.no}}|{{params.nowhere.at.all}}|{{metadata.k}}|{{checkpoint}}|
{{priority}} {{tags}} {{params.deep.list}} {{attempt}} {{project}} {{phase}}|{{trigger.type}}
`, task);
  assert.equal(output, `# a "title" with $HOME and \`id\` (T-1, p)
two
lines x.c ä 10
true|||v||
70 ["a","b"] [10,{"name":"ä"}] 1 default |pool_task_claimed
`);
});

test('the whole task is JSON', async (t) => {
  const h = await house(t);
  const output = await filled(h, '>{{task}}', { title: 'x', params: { a: 1 } });
  const task = JSON.parse(output.slice(1));
  assert.equal(task.title, 'x');
  assert.deepEqual(task.params, { a: 1 });
});

test('what is put in is never looked at again', async (t) => {
  const h = await house(t);
  const output = await filled(h, '{{title}} {{params.a}}',
    { title: '{{params.secret}}', params: { a: '{{title}}', secret: 's' } });
  assert.equal(output, '{{params.secret}} {{title}}');
});

test('braces that hold no name are left as they are', async (t) => {
  const h = await house(t);
  const template = '{{}} { {title}} {{{title}}} {{a b}} {{x + y}} }} {{';
  assert.equal(await filled(h, template, { title: 'T' }),
    '{{}} { {title}} {T} {{a b}} {{x + y}} }} {{');
});

test('an argument {{prompt}} becomes the prompt, as one word; stdin has the task', async (t) => {
  const h = await house(t);
  const task = { title: 'a b; exit 3 $(exit 4)' };
  const script = 'printf "%s|" "$@"; node -p "JSON.parse(fs.readFileSync(0)).title"';
  const output = await filled(h, 'do {{title}}\n', task,
    ['sh', '-c', script, '-', '-p', '{{prompt}}', 'x{{prompt}}']);
  assert.equal(output, '-p|do a b; exit 3 $(exit 4)\n|x{{prompt}}|a b; exit 3 $(exit 4)\n');
});

test('with --shell the prompt is on standard input and never in the line', async (t) => {
  const h = await house(t);
  const output = await filled(h, 'do {{title}}', { title: '$(exit 4)' },
    ['cat; echo " {{prompt}}"'], ['--shell']);
  assert.equal(output, 'do $(exit 4) {{prompt}}\n');
});

test('a prompt too long for an argument fails the attempt and not the runner', async (t) => {
  const h = await house(t);
  put(h, 'prompt.md', '{{params.long}}');
  const id = await h.task({ params: { long: 'x'.repeat(200_000) }, maxAttempts: 1 });
  const { code, err } = await runner(h, ['--once', '--prompt', file(h, 'prompt.md'), '--', 'echo',
    '{{prompt}}']).ended;
  assert.equal(code, 1, err);
  const task = await show(h, id);
  assert.equal(task.status, 'failed');
  assert.match(task.error, /cannot run 'echo': Argument list too long/);
});

test('a placeholder that no task can have is refused at the start', async (t) => {
  const h = await house(t);
  const id = await h.task();
  for (const name of ['titel', 'title.x', 'prompt', 'claim.token', 'Params.x']) {
    put(h, 'prompt.md', `fine {{title}}\nwrong {{ ${name} }}`);
    const { code, err } = await runner(h, ['--prompt', file(h, 'prompt.md'), '--', 'cat']).ended;
    assert.equal(code, 2);
    assert.match(err, new RegExp(`'\\{\\{${name}\\}\\}'`));
  }
  assert.equal((await show(h, id)).attempts, 0);
});

test('a template must be text', async (t) => {
  const h = await house(t);
  put(h, 'prompt.md', Buffer.from([0x61, 0xff]));
  const { code, err } = await runner(h, ['--prompt', file(h, 'prompt.md'), '--', 'cat']).ended;
  assert.equal(code, 2);
  assert.match(err, /is not UTF-8 text/);
});
