// SPDX-License-Identifier: MIT
// A reader of GET /api/events that understands the stream as a browser does: id, event, data,
// retry, comments; a frame without data only moves lastId.
import http from 'node:http';

import { until } from './daemon.mjs';

export class Stream {
  /** `h`: the House; more: query, id (Last-Event-ID), headers, paused (reads nothing). */
  constructor(h, more = {}) {
    this.events = [];
    this.comments = [];
    this.lastId = more.id === undefined ? '' : String(more.id);
    this.isOpen = false;
    this.isOver = false;
    this.text = '';
    const headers = { Accept: 'text/event-stream', ...more.headers };
    if (more.id !== undefined) headers['Last-Event-ID'] = String(more.id);
    const path = `/api/events${more.query ? `?${more.query}` : ''}`;
    const where = { host: '127.0.0.1', port: h.port, path, headers, agent: false };
    this.over = new Promise((done) => {
      const end = () => {
        this.isOver = true;
        done();
      };
      this.request = http.get(where, (response) => {
        this.response = response;
        this.status = response.statusCode;
        if (more.paused) response.pause();
        else response.setEncoding('utf8').on('data', (text) => this.take(text));
        response.on('error', end).on('close', end).on('end', end);
        this.isOpen = true;
      }).on('error', end).on('close', end);
    });
  }

  take(text) {
    const frames = (this.text + text).split('\n\n');
    this.text = frames.pop();
    for (const frame of frames) this.frame(frame);
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

  async reaches(id) {
    await until(`the stream reaches ${id}`, () => Number(this.lastId) >= id || this.isOver);
    return this;
  }

  close() {
    this.request.destroy();
  }
}

/** A stream that has begun. */
export async function stream(t, h, more) {
  const s = new Stream(h, more);
  t.after(() => s.close());
  const begins = () => s.isOpen && (s.comments.length > 0 || s.status !== 200 || more?.paused);
  await until('the stream begins', () => begins() || s.isOver);
  return s;
}
