// SPDX-License-Identifier: MIT
// A reader of GET /api/events that understands the stream as a browser does: id, event, data,
// retry, comments; a frame without data only moves lastId.
import http from 'node:http';

const DEADLINE_MS = 30_000;

export class Stream {
  /** `h`: the House; more: query, id (Last-Event-ID), headers, paused (reads nothing). */
  constructor(h, more = {}) {
    this.events = [];
    this.comments = [];
    this.lastId = more.id === undefined ? '' : String(more.id);
    this.isOpen = false;
    this.isOver = false;
    this.text = '';
    this.waiting = [];
    const headers = { Accept: 'text/event-stream', ...more.headers };
    if (more.id !== undefined) headers['Last-Event-ID'] = String(more.id);
    const path = `/api/events${more.query ? `?${more.query}` : ''}`;
    const where = { host: '127.0.0.1', port: h.port, path, headers, agent: false };
    this.over = new Promise((done) => {
      const end = () => {
        this.isOver = true;
        done();
        this.look();
      };
      this.request = http.get(where, (response) => {
        this.response = response;
        this.status = response.statusCode;
        if (more.paused) response.pause();
        else response.setEncoding('utf8').on('data', (text) => this.take(text));
        response.on('error', end).on('close', end).on('end', end);
        this.isOpen = true;
        this.look();
      }).on('error', end).on('close', end);
    });
  }

  take(text) {
    const frames = (this.text + text).split('\n\n');
    this.text = frames.pop();
    for (const frame of frames) this.frame(frame);
    this.look();
  }

  /** Resolves when the condition holds, which is asked whenever something has come, or when the
   * stream is over. */
  when(what, condition) {
    return new Promise((done, failed) => {
      const late = setTimeout(() => failed(new Error(`waited in vain: ${what}`)), DEADLINE_MS);
      this.waiting.push(() => {
        if (!this.isOver && !condition()) return false;
        clearTimeout(late);
        done(this);
        return true;
      });
      this.look();
    });
  }

  look() {
    this.waiting = this.waiting.filter((asks) => !asks());
  }

  frame(text) {
    const data = [];
    let type = 'message';
    for (const line of text.split('\n')) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === 'id') this.lastId = value;
      else if (name === 'event') type = value;
      else if (name === 'data') data.push(value);
      else if (name === 'retry') this.retry = Number(value);
      else if (name === '') this.comments.push(value);
    }
    if (data.length === 0) return;
    this.events.push({ id: this.lastId, type, data: JSON.parse(data.join('\n')) });
  }

  /** Numbers of the events seen so far, without resync and shutdown. */
  get numbers() {
    const events = this.events.filter(({ type }) => type !== 'resync' && type !== 'shutdown');
    return events.map(({ id }) => Number(id));
  }

  reaches(id) {
    return this.when(`the stream reaches ${id}`, () => Number(this.lastId) >= id);
  }

  close() {
    this.request.destroy();
  }
}

/** A stream that has begun. */
export async function stream(t, h, more) {
  const s = new Stream(h, more);
  t.after(() => s.close());
  return await s.when('the stream begins',
    () => s.isOpen && (s.comments.length > 0 || s.status !== 200 || more?.paused));
}
