// An HTTP client that records all requests, so that what a check has found can be repeated.
import { Agent, request as plain, type RequestOptions } from 'node:http';
import { Agent as TlsAgent, request as tls } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';

/** What is sent. */
export interface Call {
  method: string;
  url: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Drops the connection so many milliseconds after the last byte was sent. */
  cutAfter?: number | undefined;
}

/** What came back. */
export interface Reply {
  /** 0: no answer. */
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** The body, or why there was no answer. */
  text: string;
  /** The parsed text; undefined if it is not JSON. */
  json: any;
}

interface Kept {
  call: Call;
  began: number;
  ended: number;
  reply: string;
}

const timeoutMs = 30_000;

/** A client that never rejects: no answer is a reply of status 0. */
export class Http {
  readonly #agents = { 'http:': new Agent({ keepAlive: true }), 'https:': new TlsAgent({ keepAlive: true }) };
  #kept: Kept[] = [];

  async send(call: Call): Promise<Reply> {
    const began = performance.now();
    const reply = await this.#exchange(call);
    this.#kept.push({ call, began, ended: performance.now(), reply: `${reply.status} ${reply.text}` });
    return reply;
  }

  #exchange(call: Call): Promise<Reply> {
    const url = new URL(call.url);
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const options: RequestOptions = {
      method: call.method,
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
        ...call.headers,
      },
      // A connection that is cut is not shared.
      agent: call.cutAfter === undefined ? this.#agents[url.protocol as 'http:'] : false,
    };
    return new Promise((resolve) => {
      const nothing = (why: string) => resolve({ status: 0, headers: {}, text: why, json: undefined });
      const sent = (url.protocol === 'https:' ? tls : plain)(url, options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', (error) => nothing(`no whole answer: ${error.message}`));
        response.on('end', () => {
          if (call.cutAfter !== undefined) return;
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) });
        });
      });
      sent.setTimeout(timeoutMs, () => sent.destroy(new Error(`nothing for ${timeoutMs / 1000} s`)));
      sent.on('error', (error) => nothing(`no answer: ${error.message}`));
      if (call.cutAfter !== undefined) {
        const { cutAfter } = call;
        sent.on('finish', () => {
          void pause(cutAfter).then(() => {
            sent.destroy();
            nothing(`connection dropped ${cutAfter} ms after sending`);
          });
        });
      }
      sent.end(body);
    });
  }

  /** The requests since the last call as a shell script, with their answers; overlapping requests run at once, up to `wait`. */
  takeScript(): string {
    const kept = this.#kept.sort((one, other) => one.began - other.began);
    this.#kept = [];
    const lines = ['#!/usr/bin/env bash', '# The requests as sent, with their answers. Lines that end with & overlapped.'];
    let end = -Infinity;
    let group: Kept[] = [];
    const flush = () => {
      const together = group.length > 1;
      lines.push(...group.map((each) => line(each, together)), ...(together ? ['wait'] : []));
      group = [];
    };
    for (const each of kept) {
      if (each.began >= end) flush();
      group.push(each);
      end = Math.max(end, each.ended);
    }
    flush();
    return `${lines.join('\n')}\n`;
  }

  /** Closes the connections. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function line({ call, reply }: Kept, together: boolean): string {
  const headers = Object.entries({ ...(call.body !== undefined && { 'content-type': 'application/json' }), ...call.headers });
  const parts = [
    `curl -sS -X ${call.method} ${quoted(call.url)}`,
    ...headers.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(call.body === undefined ? [] : [`-d ${quoted(JSON.stringify(call.body))}`]),
  ];
  return `${parts.join(' ')}${together ? ' &' : ''}  # ${reply.replaceAll(/\s+/g, ' ').slice(0, 400)}`;
}
