// SPDX-License-Identifier: MIT
// The other ends of webhooks: Slack and GitHub as senders, and a local server that plays Slack.
import { createHmac } from 'node:crypto';
import http from 'node:http';

export const SLACK_SECRET = '8f742231b10e8888abcd99yyyzzz85a5';
export const GITHUB_SECRET = "It's a Secret to Everybody";
export const TOKEN = 'xoxb-not-a-real-token';

const hmac = (secret, text) => createHmac('sha256', secret).update(text).digest('hex');

/** Headers with which Slack signs a body; `at` in seconds since 1970. */
export function slackHeaders(body, { secret = SLACK_SECRET, at = nowS() } = {}) {
  return { 'X-Slack-Request-Timestamp': String(at),
    'X-Slack-Signature': `v0=${hmac(secret, `v0:${at}:${body}`)}` };
}

export const nowS = () => Math.floor(Date.now() / 1000);

let deliveries = 0;

export function githubHeaders(body, event, more = {}) {
  return { 'X-GitHub-Event': event, 'X-GitHub-Delivery': more.delivery ?? `d-${++deliveries}`,
    'X-Hub-Signature-256': `sha256=${hmac(more.secret ?? GITHUB_SECRET, body)}` };
}

let events = 0;

/** A message of Slack's Events API; `event` changes fields of the event, `outer` those around. */
export function slackEvent(event = {}, outer = {}) {
  const ts = `1515449522.${String(++events).padStart(6, '0')}`;
  return { token: 'x', team_id: 'T1', type: 'event_callback', event_id: `Ev${events}`,
    authorizations: [{ user_id: 'UBOT', is_bot: true }],
    event: { type: 'app_mention', user: 'U1', text: '<@UBOT> hello', channel: 'C1', ts, ...event },
    ...outer };
}

/** Sends a delivery of Slack's; `more`: headers, secret, at. */
export function fromSlack(h, delivery, more = {}) {
  const body = typeof delivery === 'string' ? delivery : JSON.stringify(delivery);
  const headers = { ...slackHeaders(body, more), ...more.headers };
  return h.request('POST', '/hooks/slack', { body, headers, agent: more.agent });
}

export function fromGithub(h, event, payload, more = {}) {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const headers = { ...githubHeaders(body, event, more), ...more.headers };
  return h.request('POST', '/hooks/github', { body, headers });
}

/** An issue that somebody opened. */
export function issue(number, more = {}) {
  return { action: 'opened', repository: { full_name: 'octo/hello' },
    sender: { login: 'octocat', type: 'User' },
    issue: { number, title: 'It breaks', html_url: `https://github.com/octo/hello/issues/${number}`,
      body: 'When I press it.' }, ...more };
}

/** A server that plays Slack: `answer(post, nth)` says what it answers: {status, headers, json,
 * text}, or a promise of it; by default that all is well. Posts are kept in `posts`. */
export class Slack {
  constructor(t, answer = () => ({})) {
    this.answer = answer;
    this.posts = [];
    this.server = http.createServer((req, res) => this.#take(req, res));
    t.after(() => {
      this.server.closeAllConnections();
      this.server.close();
    });
  }

  async start() {
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.server.address().port}/api`;
    return this;
  }

  async #take(req, res) {
    let text = '';
    for await (const part of req) text += part;
    const post = { at: performance.now(), path: req.url, headers: req.headers,
      body: JSON.parse(text) };
    this.posts.push(post);
    const said = await this.answer(post, this.posts.length);
    res.writeHead(said.status ?? 200, { 'Content-Type': 'application/json', ...said.headers });
    res.end(said.text ?? JSON.stringify(said.json ?? { ok: true, ts: '1.2' }));
  }
}

/** The settings of a daemon that takes both, and sends answers to that Slack. */
export const secrets = (slack) => ({ DIBS_SLACK_SIGNING_SECRET: SLACK_SECRET,
  DIBS_GITHUB_SECRET: GITHUB_SECRET,
  ...(slack ? { DIBS_SLACK_BOT_TOKEN: TOKEN, DIBS_SLACK_URL: slack.url } : {}) });
