// Calls of the gateway, repeated where it is busy.
import { setTimeout as pause } from 'node:timers/promises';

/** An error answer. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;

  constructor(what: string, status: number, body: { code?: string; error?: string; details?: unknown }) {
    super(`${what}: ${status} ${body.error ?? ''} ${JSON.stringify(body.details ?? '')}`);
    [this.status, this.code] = [status, body.code ?? ''];
  }
}

/** Calls with one credential; answers `data`. */
export type Api = (method: string, path: string, body?: unknown) => Promise<any>;

/** The calls of a gateway with a credential, or without. */
export function apiOf(url: string, credential?: string): Api {
  return async (method, path, body) => {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await fetch(url + path, {
        method,
        headers: {
          ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const json: any = await answer.json();
      if (answer.ok) return json.data;
      if (answer.status !== 503 || attempt === 8) throw new ApiProblem(`${method} ${path}`, answer.status, json);
      await pause(200 * attempt);
    }
  };
}
