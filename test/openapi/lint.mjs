// SPDX-License-Identifier: MIT
// test-timeout: 300
// The description that the daemon serves is clean under the linter's recommended rules, and the
// linter would have said so if it were not.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { House } from '../wire/lib/daemon.mjs';
import { lint, linter } from './lib/redocly.mjs';

const { program, why } = linter();
const skip = why ?? false;

async function describe(t) {
  const house = await new House(t).start();
  const answer = await house.get('/api/openapi.json');
  assert.equal(answer.status, 200);
  return answer;
}

function findings(t, text) {
  const folder = mkdtempSync(join(tmpdir(), 'dibs-openapi-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'openapi.json');
  writeFileSync(file, text);
  const { out, err } = lint(program, file);
  assert.match(out, /^\{/, err);
  return JSON.parse(out);
}

test('the description has no error and no warning', { skip }, async (t) => {
  const { totals, problems } = findings(t, (await describe(t)).text);
  assert.deepEqual(problems, []);
  assert.deepEqual(totals, { errors: 0, warnings: 0, ignored: 0 });
});

test('a description with a fault is found out', { skip }, async (t) => {
  const broken = (await describe(t)).json;
  broken.paths['/api/tasks'].get.operationId = 'taskCreate'; // which POST has already
  delete broken.paths['/api/tasks'].post.summary;
  const { totals } = findings(t, JSON.stringify(broken));
  assert.ok(totals.errors >= 2, JSON.stringify(totals));
});

test('it is JSON, of version 3.1, and names the version of the program', async (t) => {
  const { headers, json } = await describe(t);
  assert.equal(headers['content-type'], 'application/json');
  assert.equal(json.openapi, '3.1.0');
  assert.match(json.info.version, /^\d+\.\d+\.\d+$/);
});

test('what the daemon says of itself fits its description', async (t) => {
  const house = await new House(t).start();
  const { json } = await house.get('/api/openapi.json');
  const { properties, required } = json.components.schemas.State;
  for (const path of ['/healthz', '/readyz']) {
    const state = (await house.get(path)).json;
    assert.deepEqual(Object.keys(state).sort(), Object.keys(properties).sort());
    assert.deepEqual(Object.keys(state).sort(), [...required].sort());
  }
});
