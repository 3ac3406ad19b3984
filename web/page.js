// SPDX-License-Identifier: MIT
// The plain page: health, counts, sessions and what happens, kept up to date by the events.
// Everything that comes from the server is shown as text (textContent), never as markup.
import { backoff, readEvents } from './stream.js';

const KEY = 'dibs-api-key';
const EVENTS_SHOWN = 20;
const SESSIONS_SHOWN = 50;
const REFRESH_MS = 10_000; // when no event comes
const SETTLE_MS = 300; // several events in a row are one refresh
const PAUSE_MS = 2_000; // between refreshes, so that a key's 100 requests a minute last
const STATUSES = ['open', 'in_progress', 'blocked', 'assigned', 'offered', 'reviewing', 'completed',
  'failed', 'cancelled'];

const $ = (id) => document.getElementById(id);

/** Answered 401: somebody must give a key first. */
class KeyNeeded extends Error {}

async function ask(path, headers = {}) {
  const key = sessionStorage.getItem(KEY);
  if (key) headers['X-API-Key'] = key;
  const response = await fetch(path, { headers, cache: 'no-store', credentials: 'omit' });
  if (response.status === 401) throw new KeyNeeded();
  if (!response.ok) throw new Error(`${path} was answered ${response.status}`);
  return response;
}

async function askJson(path) {
  return (await ask(path, { Accept: 'application/json' })).json();
}

// ---- showing ----

function element(name, text, className = '') {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function showHealth(text, bad = false) {
  $('health').textContent = text;
  $('health').className = bad ? 'bad' : '';
}

function showCounts(id, counts) {
  $(id).replaceChildren(...counts.map(([name, count]) => {
    const box = document.createElement('div');
    box.append(element('dt', name), element('dd', count.toLocaleString('en')));
    return box;
  }));
}

function sessionRow(session) {
  const row = document.createElement('tr');
  const work = session.claimInfo ? `${session.claimInfo.title} (${session.claimInfo.taskId})` : '';
  row.append(element('td', session.id), element('td', session.healthStatus, session.healthStatus),
    element('td', work), element('td', `${session.tasksCompleted}/${session.tasksTotal}`));
  return row;
}

function showSessions(sessions) {
  const rows = sessions.slice(0, SESSIONS_SHOWN).map(sessionRow);
  if (sessions.length === 0) rows.push(note('nobody is registered'));
  if (sessions.length > SESSIONS_SHOWN) rows.push(note(`${sessions.length - SESSIONS_SHOWN} more`));
  $('sessions').replaceChildren(...rows);
}

function note(text) {
  const row = document.createElement('tr');
  const cell = element('td', text, 'empty');
  cell.colSpan = 4;
  row.append(cell);
  return row;
}

function showEvent(event) {
  const about = JSON.parse(event.data);
  const time = new Date(about.at ?? Date.now());
  const line = document.createElement('li');
  const when = element('time', time.toLocaleTimeString());
  when.dateTime = time.toISOString();
  line.append(when, element('span', event.type),
    element('span', [about.taskId, about.sessionId].filter(Boolean).join(' by ')));
  $('events').prepend(line);
  while ($('events').children.length > EVENTS_SHOWN) $('events').lastChild.remove();
}

// ---- asking ----

async function refresh() {
  const { globalMetrics: now, sessions } = await askJson('/api/sessions/summary');
  showHealth('serving');
  showCounts('now', [['live sessions', now.activeCount], ['stale sessions', now.staleCount],
    ['in flight', now.inFlight], ['completed today', now.tasksCompletedToday]]);
  const others = Object.keys(now.tasksByStatus).filter((status) => !STATUSES.includes(status));
  showCounts('tasks', [...STATUSES, ...others].map((status) => (
    [status.replace('_', ' '), now.tasksByStatus[status] ?? 0])));
  showSessions(sessions);
}

/** Refreshes in a moment, or a little later when it has just been done. */
const refreshSoon = (() => {
  let timer = null;
  let last = -PAUSE_MS;
  const run = () => {
    timer = null;
    last = performance.now();
    refresh().catch(trouble);
  };
  return () => {
    const rest = last + PAUSE_MS - performance.now();
    timer ??= setTimeout(run, Math.max(SETTLE_MS, rest));
  };
})();

function trouble(error) {
  const needsKey = error instanceof KeyNeeded;
  $('key').hidden = !needsKey;
  if (needsKey) showHealth('an API key is needed', true);
  else showHealth(`cannot be reached: ${error.message}`, true);
  return needsKey;
}

/** Where to begin: the last few events are shown as if they had just come. */
async function startingPoint() {
  const { firstKept, last } = await askJson('/api/events?limit=1');
  return String(Math.max(firstKept - 1, last - EVENTS_SHOWN, 0));
}

function onEvent(event) {
  if (event.id) follow.last = event.id;
  follow.attempt = 0;
  if (event.type.includes(':')) showEvent(event); // not resync, not goodbye: these have no "noun:"
  refreshSoon();
}

/** Follows the events for ever; gives up only to wait for a key. One at a time. */
async function follow() {
  clearTimeout(follow.timer);
  const turn = ++follow.turn;
  try {
    follow.last ??= await startingPoint();
    const response = await ask('/api/events', {
      Accept: 'text/event-stream', 'Last-Event-ID': follow.last,
    });
    $('key').hidden = true;
    refreshSoon();
    await readEvents(response, onEvent);
  } catch (error) {
    if (trouble(error)) return;
  }
  if (turn === follow.turn) follow.timer = setTimeout(follow, backoff(follow.attempt++));
}
follow.attempt = 0;
follow.turn = 0;

$('key').addEventListener('submit', (submitted) => {
  submitted.preventDefault();
  sessionStorage.setItem(KEY, $('secret').value.trim());
  $('secret').value = '';
  follow();
});

follow();
setInterval(refreshSoon, REFRESH_MS);
