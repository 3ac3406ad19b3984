// SPDX-License-Identifier: MIT
// Answers to messages from Slack, sent by a real daemon to a local server that plays Slack: it says
// "later", breaks, is slow, refuses; the daemon is killed and started again in between.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { eventually } from './lib/clock.mjs';
import { house, House } from './lib/daemon.mjs';
import { fromSlack, secrets, Slack, slackEvent, TOKEN } from './lib/hooks.mjs';

/** A message from Slack that was answered; returns its id. */
async function answered(h, text = 'an answer', event = {}) {
  const { messageId } = (await fromSlack(h, slackEvent(event))).json;
  await h.ok('POST', `/api/inbox/${messageId}/respond`, { text });
  return messageId;
}

async function events(h, type) {
  const { json } = await h.get(`/api/events?types=${type}&limit=1000`,
    { headers: { Accept: 'application/json' } });
  return json.events.filter((e) => e.type === type);
}

const sent = (h, count) => eventually(`${count} answers are sent`,
  async () => (await events(h, 'inbox:reply-sent')).length >= count);

test('an answer reaches its thread at once, with the token', async (t) => {
  const slack = await new Slack(t).start();
  const h = await house(t, { env: secrets(slack) });
  const id = await answered(h, 'an "answer" ✓', { thread_ts: '1515449000.000001' });
  await sent(h, 1);
  assert.equal(slack.posts.length, 1);
  const { path, headers, body } = slack.posts[0];
  assert.equal(path, '/api/chat.postMessage');
  assert.equal(headers.authorization, `Bearer ${TOKEN}`);
  assert.match(headers['content-type'], /^application\/json/);
  assert.equal(body.channel, 'C1');
  assert.equal(body.thread_ts, '1515449000.000001');
  assert.equal(body.text, 'an "answer" ✓');
  assert.match(body.client_msg_id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-/);
  const [event] = await events(h, 'inbox:reply-sent');
  assert.equal(event.data.messageId, id);
  assert.equal(event.data.attempts, 1);
  assert.match((await h.get('/metrics')).text, /dibs_answers_sent_total 1\n[^]*_waiting 0\n/);
});

test('an answer that a command writes into the data file is sent too', async (t) => {
  const slack = await new Slack(t).start();
  const h = await house(t, { env: secrets(slack) });
  const { messageId } = (await fromSlack(h, slackEvent())).json;
  // a command that is given settings works on the data file itself
  const { code, err } = await h.dibs('inbox', 'respond', messageId, 'by hand',
    { env: { DIBS_LOCK_TTL: '2m' } });
  assert.equal(code, 0, err);
  await sent(h, 1);
  assert.deepEqual(slack.posts.map((p) => p.body.text), ['by hand']);
});

test('many answers are sent in their order, each once', async (t) => {
  const slack = await new Slack(t).start();
  const h = await house(t, { env: secrets(slack) });
  for (let i = 0; i < 20; i++) await answered(h, `answer ${i}`);
  await sent(h, 20);
  assert.deepEqual(slack.posts.map((p) => p.body.text),
    Array.from({ length: 20 }, (_, i) => `answer ${i}`));
  assert.equal(new Set(slack.posts.map((p) => p.body.client_msg_id)).size, 20);
});

test('429: waits as long as Slack says, with everything', async (t) => {
  const slack = await new Slack(t, (_, nth) => nth > 1 ? {} :
    { status: 429, headers: { 'Retry-After': '2' }, json: { ok: false, error: 'ratelimited' } })
    .start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h, 'one');
  await eventually('the first is refused', () => slack.posts.length === 1);
  await answered(h, 'two');
  await sent(h, 2);
  assert.equal(slack.posts.length, 3);
  assert.ok(slack.posts[1].at - slack.posts[0].at >= 1950);
  const ids = slack.posts.filter((p) => p.body.text === 'one').map((p) => p.body.client_msg_id);
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
  assert.match((await h.get('/metrics')).text, /dibs_answer_retries_total 1\n/);
});

test('500, a page that is not Slack, and a passing error are tried again', async (t) => {
  const said = [{ status: 500, text: 'oops' }, { text: '<html>' },
    { json: { ok: false, error: 'internal_error' } }];
  const slack = await new Slack(t, (_, nth) => said[nth - 1] ?? {}).start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h);
  await sent(h, 1);
  assert.equal(slack.posts.length, 4);
  assert.equal((await events(h, 'inbox:reply-sent'))[0].data.attempts, 4);
  const gaps = slack.posts.slice(1).map((p, i) => p.at - slack.posts[i].at);
  for (const [i, gap] of gaps.entries()) {
    assert.ok(gap >= 450 * 2 ** i, `attempt ${i + 2} came after ${gap} ms`);
  }
});

test('an error that stays ends it, in log and event, and does not hold up others', async (t) => {
  const slack = await new Slack(t, (post) => post.body.channel === 'C1' ? {} :
    { json: { ok: false, error: 'channel_not_found' } }).start();
  const h = await house(t, { env: secrets(slack) });
  const id = await answered(h, 'lost', { channel: 'CGONE' });
  await answered(h, 'fine');
  await sent(h, 1);
  assert.equal(slack.posts.length, 2);
  const [failed] = await events(h, 'inbox:reply-failed');
  assert.equal(failed.data.messageId, id);
  assert.equal(failed.data.error, 'Slack says: channel_not_found');
  assert.match(h.daemon.err, /cannot be sent to slack: Slack says: channel_not_found/);
  assert.match((await h.get('/metrics')).text, /dibs_answers_failed_total 1\n/);
  const { message } = await h.ok('GET', `/api/inbox/${id}`);
  assert.equal(message.status, 'responded');
});

test('killed while Slack was about to answer: sent again with the same id', async (t) => {
  let answer;
  const slow = new Promise((done) => { answer = done; });
  const slack = await new Slack(t, (_, nth) => nth === 1 ? slow : {}).start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h);
  await eventually('Slack has it', () => slack.posts.length === 1);
  await h.stop('SIGKILL');
  answer({});
  await h.start();
  await sent(h, 1);
  assert.equal(slack.posts.length, 2);
  assert.equal(slack.posts[0].body.client_msg_id, slack.posts[1].body.client_msg_id);
  assert.equal((await events(h, 'inbox:reply-sent')).length, 1);
});

test('killed between two attempts: goes on where it was', async (t) => {
  let broken = true;
  const slack = await new Slack(t, () => broken ? { status: 503 } : {}).start();
  const h = await house(t, { env: secrets(slack) });
  for (let i = 0; i < 3; i++) await answered(h, `answer ${i}`);
  await eventually('each was tried', () => slack.posts.length >= 3);
  await eventually('that is noted', async () =>
    /dibs_answer_retries_total [3-9]/.test((await h.get('/metrics')).text));
  await h.stop('SIGKILL');
  broken = false;
  await h.start();
  await sent(h, 3);
  for (const event of await events(h, 'inbox:reply-sent')) assert.ok(event.data.attempts >= 2);
});

test('a redirect is not followed: the token goes nowhere else', async (t) => {
  const thief = await new Slack(t).start();
  const slack = await new Slack(t, (_, nth) => nth > 1 ? {} :
    { status: 307, headers: { Location: `${thief.url}/chat.postMessage` } }).start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h);
  await sent(h, 1);
  assert.equal(slack.posts.length, 2);
  assert.equal(thief.posts.length, 0);
});

test('nobody listens there: tried again until somebody does', async (t) => {
  const slack = await new Slack(t).start();
  const { port } = slack.server.address();
  const h = await house(t, { env: secrets(slack) });
  await new Promise((done) => slack.server.close(done));
  await answered(h);
  await eventually('it is said', () => /is not sent to slack yet/.test(h.daemon.err));
  await new Promise((done) => slack.server.listen(port, '127.0.0.1', done));
  await sent(h, 1);
});

test('without a token answers wait, the log says so once, and SIGHUP sends them', async (t) => {
  const slack = await new Slack(t).start();
  const { DIBS_SLACK_SIGNING_SECRET } = secrets();
  const h = new House(t, { env: { DIBS_SLACK_SIGNING_SECRET } });
  await h.dibs('init');
  await h.start();
  for (let i = 0; i < 3; i++) await answered(h, `answer ${i}`);
  await eventually('it is said', () => h.daemon.err.includes('set slackBotToken'));
  await answered(h, 'answer 3');
  assert.match((await h.get('/metrics')).text, /dibs_answers_waiting 4\n/);
  h.configure([`slackBotToken = ${TOKEN}`, `slackUrl = ${slack.url}`]);
  h.daemon.kill('SIGHUP');
  await sent(h, 4);
  assert.equal(h.daemon.err.split('set slackBotToken').length - 1, 1);
  assert.ok(!h.daemon.err.includes(TOKEN));
});

test('a slow Slack does not keep the daemon from stopping', async (t) => {
  const slack = await new Slack(t, () => new Promise(() => {})).start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h);
  await eventually('Slack has it', () => slack.posts.length === 1);
  const before = performance.now();
  const { code } = await h.stop();
  assert.equal(code, 0);
  assert.ok(performance.now() - before < 5000);
});

test('an answer that arrives while the daemon stops is noted', async (t) => {
  let answer;
  const slow = new Promise((done) => { answer = done; });
  const slack = await new Slack(t, (_, nth) => nth === 1 ? slow : {}).start();
  const h = await house(t, { env: secrets(slack) });
  await answered(h);
  await eventually('Slack has it', () => slack.posts.length === 1);
  const stopped = h.stop();
  answer({});
  assert.equal((await stopped).code, 0);
  await h.start();
  assert.equal((await events(h, 'inbox:reply-sent')).length, 1);
  assert.equal(slack.posts.length, 1);
});
