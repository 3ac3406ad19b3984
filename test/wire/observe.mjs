// SPDX-License-Identifier: MIT
// What an operator sees: health, readiness, metrics in the form that Prometheus reads, and one line
// of JSON per request, in which nobody can write what he likes.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { bytesOf } from './lib/raw.mjs';

/** Lines of the log, without those that say where it listens. */
const lines = (h) =>
  h.daemon.out.split('\n').filter((each) => each !== '' && !each.startsWith('dibs: '));

async function logged(h, count) {
  await until(`${count} lines`, () => lines(h).length >= count);
  return lines(h).map((each) => JSON.parse(each));
}

test('health and readiness are told to anybody, and not to be kept', async (t) => {
  const h = await house(t);
  for (const [path, status] of [['/healthz', 'ok'], ['/readyz', 'ready']]) {
    const answer = await h.get(path);
    assert.deepEqual([answer.status, answer.json.status, answer.headers['cache-control']],
      [200, status, 'no-store']);
    assert.match(answer.json.version, /^\d+\.\d+\.\d+/);
    const refused = await h.post(path, {});
    assert.deepEqual([refused.status, refused.headers.allow], [405, 'GET, HEAD']);
  }
});

const LABELS = /(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*/;
const VALUE = /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf/;
const SAMPLE = new RegExp(`^([a-z_:][a-z0-9_:]*)(?:\\{(${LABELS.source})\\})? (${VALUE.source})$`);

/** Reads the text format strictly: {types, samples: [{name, labels, value}]}. */
function parseMetrics(text) {
  assert.ok(text.endsWith('\n'));
  const types = new Map();
  const samples = [];
  for (const line of text.slice(0, -1).split('\n')) {
    const comment = /^# (HELP|TYPE) ([a-z_:][a-z0-9_:]*) (.+)$/.exec(line);
    if (comment?.[1] === 'TYPE') {
      assert.ok(!types.has(comment[2]), `${comment[2]} has two types`);
      types.set(comment[2], comment[3]);
    }
    if (comment) continue;
    const sample = SAMPLE.exec(line);
    assert.ok(sample, `not a sample: ${line}`);
    samples.push({
      name: sample[1],
      labels: sample[2] ?? '',
      value: Number(sample[3].replace('Inf', 'Infinity'))
    });
  }
  return { types, samples };
}

test('metrics can be read: types, no series twice, histograms that add up', async (t) => {
  const h = await house(t);
  for (let i = 0; i < 20; i++) await h.task();
  await h.get('/api/tasks/nosuch');
  const answer = await h.get('/metrics');
  assert.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  const { types, samples } = parseMetrics(answer.text);
  assert.equal(
    new Set(samples.map(({ name, labels }) => `${name}{${labels}}`)).size, samples.length);
  for (const [family, type] of types) {
    assert.match(type, /^(counter|gauge|histogram)$/);
    const own = samples.filter(
      ({ name }) => name === family || (type === 'histogram' && name.startsWith(`${family}_`)));
    assert.ok(own.length > 0, `${family} has no sample`);
    assert.ok(own.every(({ value }) => !Number.isNaN(value)));
    if (type === 'counter') assert.match(family, /_total$/);
    if (type === 'histogram') assertHistogram(family, own);
  }
});

function assertHistogram(family, samples) {
  const key = (labels) => labels.split(',').filter((label) => !label.startsWith('le=')).join(',');
  for (const { labels, value: count } of samples.filter(({ name }) => name === `${family}_count`)) {
    const buckets =
      samples.filter((each) => each.name === `${family}_bucket` && key(each.labels) === labels);
    const values = buckets.map(({ value }) => value);
    assert.deepEqual(
      values, [...values].sort((a, b) => a - b), `${family}{${labels}} is cumulative`);
    assert.match(buckets.at(-1).labels, /le="\+Inf"/);
    assert.equal(values.at(-1), count, `${family}{${labels}}`);
  }
}

test('every operation is counted under its own name, everything else under one', async (t) => {
  const h = await house(t);
  for (const path of ['/x', '/api/x', `/api/tasks/${'"}\\n'.repeat(3)}`, '/api/tasks/1',
         '/api/tasks', '/%0a'])
    await h.get(path);
  const { samples } = parseMetrics((await h.get('/metrics')).text);
  const names = samples.filter(({ name }) => name === 'dibs_requests_total')
                  .map(({ labels }) => /operation="(\w+)"/.exec(labels)[1]);
  assert.ok(names.includes('taskGet') && names.includes('taskList') && names.includes('other'));
  assert.ok(names.every((name) => /^[A-Za-z]+$/.test(name)));
});

test('with --log-requests each request is one line of JSON; without it none is', async (t) => {
  const h = await house(t, { args: ['--log-requests'] });
  await h.task({ id: 't' });
  await h.get('/api/tasks/t?x=1');
  await h.get('/api/tasks/nosuch');
  await h.get('/healthz');
  await h.request('HEAD', '/');
  const said = await logged(h, 5);
  assert.deepEqual(
    said.map(({ method, path, operation, status }) => [method, path, operation, status]), [
      ['POST', '/api/tasks', 'taskCreate', 201], ['GET', '/api/tasks/t', 'taskGet', 400],
      ['GET', '/api/tasks/nosuch', 'taskGet', 404], ['GET', '/healthz', undefined, 200],
      ['HEAD', '/', undefined, 200]
    ]);
  for (const { at, bytes, us } of said) {
    assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
    assert.ok(bytes > 0 && us >= 0);
  }
  const silent = await house(t);
  await silent.task();
  await silent.stop();
  assert.deepEqual(lines(silent), []);
});

test('a line has no secret, no query, no control character, whatever was asked', async (t) => {
  const h = await house(t, { args: ['--log-requests'] });
  const { apiKey, key } =
    await h.ok('POST', '/api/keys', { name: 'n', role: 'worker' }, { socket: true });
  const headers = { 'X-API-Key': apiKey };
  await until(
    'the key is known', async () => (await h.get('/api/tasks', { headers })).status === 200);
  const before = (await logged(h, 1)).length;
  const secrets = ['secret-in-query', 'secret-in-body', 'secret-in-header', apiKey];
  await h.get(`/api/tasks?type=${secrets[0]}`, { headers });
  await h.post('/api/tasks', { title: secrets[1] },
    { headers: { ...headers, 'X-Note': secrets[2], 'Idempotency-Key': secrets[2] } });
  await h.get('/api/tasks', { headers: { Authorization: `Bearer ${apiKey}` } });
  for (const path of ['/%0a%0dfake', '/"},{"status":200', '/\\u001b[31m', '/<script>', "/';--",
         '/%1b%5b31m'])
    await h.raw(bytesOf('GET', path, { headers: ['Connection: close'] }));
  const said = await logged(h, before + 9);
  assert.equal(said.at(-9).key, key.id);
  assert.equal(said.at(-6).path, '/%0a%0dfake');
  const text = lines(h).join('\n');
  for (const secret of secrets) assert.ok(!text.includes(secret), secret);
  assert.doesNotMatch(text.replaceAll('\n', ''), /[\u0000-\u001f\u007f-\u009f]/);
});

test('requests in a row are a line each, in the order in which they were answered', async (t) => {
  const h = await house(t, { args: ['--log-requests'] });
  const bytes = Array.from({ length: 200 }, (_, i) => bytesOf('GET', `/n${i}`)).join('');
  await h.raw(bytes + bytesOf('GET', '/end', { headers: ['Connection: close'] }));
  const said = await logged(h, 201);
  assert.deepEqual(
    said.map(({ path }) => path), [...Array.from({ length: 200 }, (_, i) => `/n${i}`), '/end']);
});
