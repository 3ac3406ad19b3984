// SPDX-License-Identifier: MIT
// Webhooks of Slack and GitHub on a real daemon: what is let in, what becomes of it, and that the
// same delivery counts once however often and from wherever it comes.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { fromGithub, fromSlack, GITHUB_SECRET, githubHeaders, issue, nowS, secrets, slackEvent,
  slackHeaders, SLACK_SECRET } from './lib/hooks.mjs';

const messages = async (h) => (await h.ok('GET', '/api/inbox')).messages;

test('without a secret a hook says which setting to make', async (t) => {
  const h = await house(t);
  for (const [path, setting] of [['/hooks/slack', 'DIBS_SLACK_SIGNING_SECRET'],
    ['/hooks/github', 'DIBS_GITHUB_SECRET']]) {
    const { status, json } = await h.post(path, {});
    assert.equal(status, 404);
    assert.equal(json.success, false);
    assert.match(json.message, new RegExp(setting));
  }
  assert.equal((await h.post('/hooks/gitlab', {})).status, 404);
});

test('a hook takes POST only', async (t) => {
  const h = await house(t, { env: secrets() });
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const { status, headers } = await h.request(method, '/hooks/slack');
    assert.equal(status, 405);
    assert.equal(headers.allow, 'POST');
  }
});

test('Slack: the challenge comes back', async (t) => {
  const h = await house(t, { env: secrets() });
  const { status, json } = await fromSlack(h,
    { token: 'x', challenge: '3eZbrw1a"Bm2', type: 'url_verification' });
  assert.equal(status, 200);
  assert.equal(json.challenge, '3eZbrw1a"Bm2');
});

test('Slack: a mention becomes a message of the leads', async (t) => {
  const h = await house(t, { env: secrets() });
  const delivery = slackEvent({ text: '<@UBOT> is 1 &lt; 2? ünï ✓', thread_ts: '1515449000.1' });
  const { status, json } = await fromSlack(h, delivery);
  assert.equal(status, 200);
  assert.equal(json.success, true);
  const { message } = await h.ok('GET', `/api/inbox/${json.messageId}`);
  assert.equal(message.content, 'is 1 < 2? ünï ✓');
  assert.equal(message.source, 'slack');
  assert.equal(message.channel, 'C1');
  assert.equal(message.thread, '1515449000.1');
  assert.equal(message.user, 'U1');
  assert.equal(message.matchedText, '<@UBOT>');
  assert.equal(message.status, 'unread');
  assert.equal(message.agentId ?? null, null);
});

test('wrong, old, future, cut and missing signatures change nothing', async (t) => {
  const h = await house(t, { env: secrets() });
  const body = JSON.stringify(slackEvent());
  const good = slackHeaders(body);
  const wrong = [
    slackHeaders(body, { secret: 'another' }),
    slackHeaders(body, { at: nowS() - 310 }),
    slackHeaders(body, { at: nowS() + 310 }),
    slackHeaders(body + ' '),
    { ...good, 'X-Slack-Request-Timestamp': String(nowS() - 10) },
    { ...good, 'X-Slack-Signature': good['X-Slack-Signature'].slice(0, -1) },
    { ...good, 'X-Slack-Signature': good['X-Slack-Signature'].toUpperCase() },
    { 'X-Slack-Signature': good['X-Slack-Signature'] },
    { 'X-Slack-Request-Timestamp': good['X-Slack-Request-Timestamp'] },
    {},
  ];
  for (const headers of wrong) {
    const { status, json } = await h.request('POST', '/hooks/slack', { body, headers });
    assert.equal(status, 401, JSON.stringify(headers));
    assert.equal(json.error, 'UNAUTHORIZED');
    assert.ok(!JSON.stringify(json).includes(SLACK_SECRET));
  }
  const text = JSON.stringify(issue(1));
  const signed = githubHeaders(text, 'issues');
  for (const signature of [githubHeaders(text, 'issues', { secret: 'x' })['X-Hub-Signature-256'],
    signed['X-Hub-Signature-256'].toUpperCase(), signed['X-Hub-Signature-256'].slice(0, -1), '']) {
    const headers = { ...signed, 'X-Hub-Signature-256': signature };
    const { status } = await h.request('POST', '/hooks/github', { body: text, headers });
    assert.equal(status, 401);
  }
  assert.deepEqual(await messages(h), []);
  const { text: metrics } = await h.get('/metrics');
  assert.match(metrics, /dibs_hooks_total\{source="slack",outcome="unsigned"\} 10\n/);
  assert.match(metrics, /dibs_hooks_total\{source="github",outcome="unsigned"\} 4\n/);
});

test('the same event ten times at once, over ten connections, is one message', async (t) => {
  const h = await house(t, { env: secrets() });
  for (let round = 0; round < 5; round++) {
    const delivery = slackEvent();
    const answers = await Promise.all(Array.from({ length: 10 },
      () => fromSlack(h, delivery, { agent: new http.Agent() })));
    assert.deepEqual(answers.map((a) => a.status), Array(10).fill(200));
    assert.equal(answers.filter((a) => a.json.messageId).length, 1);
    assert.equal(answers.filter((a) => a.json.duplicate).length, 9);
  }
  assert.equal((await messages(h)).length, 5);
});

test('a repeat is known after the daemon was killed', async (t) => {
  const h = await house(t, { env: secrets() });
  const delivery = slackEvent();
  await fromSlack(h, delivery);
  await h.stop('SIGKILL');
  await h.start();
  assert.equal((await fromSlack(h, delivery)).json.duplicate, true);
  assert.equal((await messages(h)).length, 1);
});

test('a mention that is told as a message as well is one message', async (t) => {
  const h = await house(t, { env: secrets() });
  const mention = slackEvent();
  const message = { ...mention, event_id: 'EvOther', event: { ...mention.event, type: 'message' } };
  assert.ok((await fromSlack(h, mention)).json.messageId);
  assert.equal((await fromSlack(h, message)).json.duplicate, true);
  assert.equal((await messages(h)).length, 1);
});

test('bots and edits are ignored, with 200', async (t) => {
  const h = await house(t, { env: secrets() });
  const ignored = [slackEvent({ bot_id: 'B1' }), slackEvent({ subtype: 'bot_message' }),
    slackEvent({ user: 'UBOT' }), slackEvent({ type: 'message', subtype: 'message_changed' }),
    slackEvent({ type: 'message', subtype: 'message_deleted' }),
    slackEvent({ type: 'reaction_added' }), slackEvent({ text: '' })];
  for (const delivery of ignored) {
    const { status, json } = await fromSlack(h, delivery);
    assert.equal(status, 200);
    assert.equal(json.ignored, true, JSON.stringify(delivery));
  }
  assert.deepEqual(await messages(h), []);
});

test('what is signed and makes no sense is refused, and may come again', async (t) => {
  const h = await house(t, { env: secrets() });
  for (const body of ['{', '[]', '{}', '{"type":"event_callback"}', '']) {
    assert.equal((await fromSlack(h, body)).status, 400, body);
  }
  const form = await fromSlack(h, 'payload=%7B%7D',
    { headers: { 'Content-Type': 'application/x-www-form-urlencoded' } });
  assert.equal(form.status, 415);
  assert.match(form.json.message, /Event Subscriptions/);
  const github = await fromGithub(h, 'issues', 'payload=%7B%7D',
    { headers: { 'Content-Type': 'application/x-www-form-urlencoded' } });
  assert.equal(github.status, 415);
  assert.match(github.json.message, /content type of the webhook to application\/json/);
});

test('GitHub: ping, issue, comment, pull request, review', async (t) => {
  const h = await house(t, { env: secrets() });
  assert.equal((await fromGithub(h, 'ping', { zen: 'x' })).json.ignored, true);
  assert.equal((await fromGithub(h, 'push', { ref: 'x' })).json.ignored, true);
  const opened = await fromGithub(h, 'issues', issue(12));
  const { message } = await h.ok('GET', `/api/inbox/${opened.json.messageId}`);
  assert.equal(message.source, 'github');
  assert.equal(message.channel, 'octo/hello');
  assert.equal(message.thread, '12');
  assert.equal(message.user, 'octocat');
  assert.equal(message.matchedText, 'issues.opened');
  assert.match(message.content, /^issue #12 opened in octo\/hello by octocat: It breaks\nhttps:/);
  const comment = { html_url: 'https://github.com/c', body: 'Me too.' };
  const pull_request = { ...issue(13).issue, merged: false };
  for (const [event, payload] of [
    ['issue_comment', issue(12, { action: 'created', comment })],
    ['pull_request', issue(13, { pull_request })],
    ['pull_request_review', issue(13, { action: 'submitted', pull_request,
      review: { html_url: 'https://github.com/r', state: 'approved', body: null } })],
    ['pull_request_review_comment', issue(13, { action: 'created', pull_request, comment })],
  ]) {
    assert.ok((await fromGithub(h, event, payload)).json.messageId, event);
  }
  const bot = issue(12, { action: 'created', comment, sender: { login: 'x[bot]', type: 'Bot' } });
  assert.equal((await fromGithub(h, 'issue_comment', bot)).json.ignored, true);
  assert.equal((await messages(h)).length, 5);
});

test('GitHub: a delivery counts once', async (t) => {
  const h = await house(t, { env: secrets() });
  const answers = await Promise.all(Array.from({ length: 10 },
    () => fromGithub(h, 'issues', issue(1), { delivery: 'same' })));
  assert.equal(answers.filter((a) => a.json.messageId).length, 1);
  assert.equal(answers.filter((a) => a.json.duplicate).length, 9);
});

test('GitHub: what the rule names becomes a task, once while it is not finished', async (t) => {
  const h = await house(t, { env: { ...secrets(), DIBS_GITHUB_TASKS: 'issues.opened',
    DIBS_HOOK_PROJECT: 'web' } });
  const { status, json } = await fromGithub(h, 'issues', issue(12));
  assert.equal(status, 200);
  const { task } = await h.ok('GET', `/api/tasks/${json.taskId}`);
  assert.equal(task.title, 'issue #12 opened in octo/hello by octocat: It breaks');
  assert.equal(task.project, 'web');
  assert.equal(task.type, 'github');
  assert.equal(task.params.number, 12);
  assert.match(task.description, /When I press it\./);
  assert.equal((await fromGithub(h, 'issues', issue(12))).json.taskId, json.taskId);
  assert.ok((await fromGithub(h, 'issues', issue(12, { action: 'closed' }))).json.messageId);
});

test('a hook needs no API key, and no name of ours in Host', async (t) => {
  const h = await house(t, { env: secrets() });
  await h.dibs('key', 'add', 'worker', '--role', 'worker');
  await until('keys are needed', async () => (await h.get('/api/tasks')).status === 401);
  const { status } = await fromSlack(h, slackEvent(),
    { headers: { Host: 'hooks.example.org', Origin: 'https://example.org' } });
  assert.equal(status, 200);
});

test('the agent and project of the settings; an agent nobody knows costs no message',
  async (t) => {
    const h = await house(t, { env: { ...secrets(), DIBS_HOOK_AGENT: 'boss',
      DIBS_HOOK_PROJECT: 'web' } });
    const early = (await fromSlack(h, slackEvent())).json.messageId;
    assert.equal((await h.ok('GET', `/api/inbox/${early}`)).message.agentId ?? null, null);
    assert.match(h.daemon.err, /agent 'boss' of hookAgent is not known/);
    await h.ok('POST', '/api/agents', { id: 'boss', project: 'web', isLead: true });
    const { messageId } = (await fromSlack(h, slackEvent())).json;
    const { message } = await h.ok('GET', `/api/inbox/${messageId}`);
    assert.equal(message.agentId, 'boss');
    assert.equal(message.project, 'web');
  });

test('SIGHUP reads the secrets again; what cannot be right leaves them as they were', async (t) => {
  const h = await house(t, { config: [`githubSecret = ${GITHUB_SECRET}`] });
  assert.equal((await fromGithub(h, 'ping', {})).status, 200);
  h.configure(['githubSecret = new']);
  h.daemon.kill('SIGHUP');
  await until('the new secret holds',
    async () => (await fromGithub(h, 'ping', {}, { secret: 'new' })).status === 200);
  assert.equal((await fromGithub(h, 'ping', {})).status, 401);
  h.configure(['githubSecret = newer', 'slackUrl = nowhere']);
  h.daemon.kill('SIGHUP');
  await until('it complains', () => h.daemon.err.includes('slackUrl'));
  assert.equal((await fromGithub(h, 'ping', {}, { secret: 'new' })).status, 200);
});

test('secrets are in no list, log, event or metric', async (t) => {
  const h = await house(t, { env: { ...secrets(), DIBS_LOG: 'debug' }, args: ['--log-requests'] });
  await fromSlack(h, slackEvent());
  await fromSlack(h, slackEvent(), { secret: 'wrong' });
  await fromGithub(h, 'issues', issue(1));
  const listed = await h.dibs('config', { env: secrets() });
  assert.match(listed.out, /slackSigningSecret +set +environment/);
  assert.match(listed.out, /slackBotToken +not set +default/);
  const { json } = await h.get('/api/events', { headers: { Accept: 'application/json' } });
  const metrics = (await h.get('/metrics')).text;
  const ended = await h.stop();
  const all = [listed.out, JSON.stringify(json), metrics, ended.out, ended.err].join('\n');
  assert.ok(!all.includes(SLACK_SECRET));
  assert.ok(!all.includes(GITHUB_SECRET));
  assert.match(metrics, /dibs_hooks_total\{source="slack",outcome="message"\} 1\n/);
});

test('a daemon does not start with a setting that cannot be right', async (t) => {
  await assert.rejects(house(t, { env: { DIBS_GITHUB_TASKS: 'pushes' } }), /githubTasks/);
});
