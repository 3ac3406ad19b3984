// SPDX-License-Identifier: MIT
// What the daemon serves beside its operations: the page and its files, metrics, health.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { House } from './lib/daemon.mjs';

const web = new URL('../../web/', import.meta.url);

/** The bytes of an answer, as they came. */
async function bytes(house, path, headers = {}) {
  const asked = { 'Accept-Encoding': 'identity', ...headers };
  const answer = await fetch(house.url + path, { headers: asked });
  return { answer, body: Buffer.from(await answer.arrayBuffer()) };
}

/** The values of /metrics by series. */
async function metrics(house) {
  const { status, headers, text } = await house.get('/metrics');
  assert.equal(status, 200);
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  return Object.fromEntries(text.split('\n').filter((line) => line && !line.startsWith('#'))
    .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').pop())]));
}

test('every file of the page is served as it is', async (t) => {
  const house = await new House(t).start();
  for (const name of readdirSync(web)) {
    const { answer, body } = await bytes(house, `/${name}`);
    assert.equal(answer.status, 200, name);
    assert.equal(answer.headers.get('content-encoding'), null);
    assert.deepEqual(body, readFileSync(new URL(name, web)));
  }
  const { answer, body } = await bytes(house, '/');
  assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.deepEqual(body, readFileSync(new URL('index.html', web)));
});

test('the gzipped form is the same file', async (t) => {
  const house = await new House(t).start();
  const asked = { headers: { 'Accept-Encoding': 'gzip' }, agent: house.agent };
  const answer = await new Promise((done, failed) => { // fetch would unpack it
    http.get(`${house.url}/page.js`, asked, (res) => {
      const parts = [];
      res.on('data', (part) => parts.push(part)).on('error', failed)
        .on('end', () => done({ headers: res.headers, body: Buffer.concat(parts) }));
    });
  });
  assert.equal(answer.headers['content-encoding'], 'gzip');
  assert.equal(answer.headers.vary, 'Accept-Encoding');
  assert.deepEqual(gunzipSync(answer.body), readFileSync(new URL('page.js', web)));
});

test('a file that the caller has is not sent again', async (t) => {
  const house = await new House(t).start();
  const first = await bytes(house, '/style.css');
  const etag = first.answer.headers.get('etag');
  const again = await bytes(house, '/style.css', { 'If-None-Match': etag });
  assert.equal(again.answer.status, 304);
  assert.equal(again.body.length, 0);
  assert.equal(again.answer.headers.get('etag'), etag);
  assert.equal((await bytes(house, '/style.css', { 'If-None-Match': '"x"' })).answer.status, 200);
});

test('HEAD tells the length and sends nothing', async (t) => {
  const house = await new House(t).start();
  const answer = await house.request('HEAD', '/page.js');
  assert.equal(answer.status, 200);
  assert.equal(answer.text, '');
  assert.equal(Number(answer.headers['content-length']),
    readFileSync(new URL('page.js', web)).length);
  assert.equal((await house.get('/healthz')).status, 200); // the connection is still in step
});

test('the page may run only what is ours, and is framed by nobody', async (t) => {
  const house = await new House(t).start();
  const { headers } = await house.get('/');
  assert.match(headers['content-security-policy'], /^default-src 'none';/);
  assert.match(headers['content-security-policy'], /frame-ancestors 'none'/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
  assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
  assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
  assert.equal(headers['cache-control'], 'no-cache');
});

test('nothing can be posted to the page', async (t) => {
  const house = await new House(t).start();
  const answer = await house.request('POST', '/', { body: {} });
  assert.equal(answer.status, 405);
  assert.match(answer.headers.allow, /GET/);
});

test('metrics count what was done', async (t) => {
  const house = await new House(t).start();
  const id = await house.task();
  await house.session('s');
  await house.session('o');
  await house.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 's' });
  assert.equal((await house.post(`/api/tasks/${id}/claim`, { sessionId: 'o' })).status, 409);
  await house.get('/no/such/path');
  const now = await metrics(house);
  assert.equal(now['dibs_requests_total{operation="claim",code="200"}'], 1);
  assert.equal(now['dibs_requests_total{operation="claim",code="409"}'], 1);
  assert.equal(now['dibs_requests_total{operation="other",code="404"}'], 1);
  assert.equal(now['dibs_request_duration_seconds_count{operation="claim"}'], 2);
  assert.equal(now['dibs_tasks{status="in_progress"}'], 1);
  assert.equal(now.dibs_claims_live, 1);
  assert.equal(now.dibs_claims_taken_total, 1);
  assert.equal(now.dibs_claims_refused_total, 1);
  assert.equal(now.dibs_store_up, 1);
  assert.ok(now.dibs_writer_commits_total >= 4);
  assert.ok(now.dibs_connections >= 1);
  assert.ok(now.process_resident_memory_bytes > 1e6);
  assert.ok(!Object.keys(now).some((series) => series.includes('such')));
});

test('every series has its help and its type', async (t) => {
  const house = await new House(t).start();
  const { text } = await house.get('/metrics');
  for (const line of text.split('\n').filter((each) => each && !each.startsWith('#'))) {
    const name = /^[a-z_]+/.exec(line)[0];
    const family = name.replace(/_(bucket|sum|count)$/, '');
    const has = (line) => text.includes(`# ${line}`);
    assert.ok(has(`TYPE ${name} `) || has(`TYPE ${family} histogram`), name);
    assert.ok(has(`HELP ${name} `) || has(`HELP ${family} `), name);
  }
});
