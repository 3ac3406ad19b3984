// SPDX-License-Identifier: MIT
// Server-sent events over fetch, because EventSource cannot send an API key. No page in here.

/** Takes in pieces of text as they arrive; returns the events that are whole: {id, type, data}. */
export class EventParser {
  constructor() {
    this.rest = '';
    this.begin();
    this.lastId = '';
  }

  begin() {
    this.type = '';
    this.lines = [];
  }

  push(text) {
    this.rest += text;
    const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    return lines.map((line) => this.line(line)).filter((event) => event !== null);
  }

  line(line) {
    if (line === '') return this.end();
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.lines.push(value);
    if (name === 'event') this.type = value;
    if (name === 'id' && !value.includes('\0')) this.lastId = value;
    return null;
  }

  end() {
    const event = { id: this.lastId, type: this.type || 'message', data: this.lines.join('\n') };
    const found = this.lines.length > 0;
    this.begin();
    return found ? event : null;
  }
}

/** Reads a stream until it ends; calls `on` for every event. Returns the id of the last one. */
export async function readEvents(response, on) {
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return parser.lastId;
    for (const event of parser.push(value)) on(event);
  }
}

/** How long to wait before the n-th attempt in a row to connect: 0.5 s, doubling up to 15 s. */
export function backoff(attempt) {
  return Math.min(15_000, 500 * 2 ** Math.min(attempt, 10));
}
