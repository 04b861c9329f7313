import { jest } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { VerifiedKeySchema, type VerifiedKey } from '../proto/gen/identity/v1/identity_pb.js';
import { newId } from '../services/platform/ids.ts';
import { newKeyText } from '../services/identity/credentials.ts';
import { ApiKeyCache, isWellFormedKey } from './api-keys.ts';

test('every key that identity makes is well-formed', () => {
  for (let count = 0; count < 200; count += 1) expect(isWellFormedKey(newKeyText(newId('key')))).toBe(true);
});

test('a key with any character changed, or one more or less, is not', () => {
  const text = newKeyText(newId('key'));
  for (let place = 0; place < text.length; place += 1) {
    const other = text[place] === '1' ? '2' : '1';
    expect([place, isWellFormedKey(text.slice(0, place) + other + text.slice(place + 1))]).toEqual([place, false]);
  }
  for (const bad of ['', text.slice(1), text.slice(0, -1), `${text}0`, ` ${text}`, text.toUpperCase()])
    expect(isWellFormedKey(bad)).toBe(false);
});

describe('the verification of a key', () => {
  const text = newKeyText(newId('key'));
  const key = create(VerifiedKeySchema, {
    keyId: 'key_1',
    tenantId: 'tenant_1',
    tenantSlug: 'acme',
    tenantStatus: 'active',
    scopes: ['accounts:read'],
  });
  const tenant = { tenantId: 'tenant_1', slug: 'acme', tenantStatus: 'active' };
  const known = { actor: 'key_1', ...tenant, scopes: new Set(['accounts:read']), expiresMs: Infinity };
  const start = 1_700_000_000_000;
  let calls: string[];

  /** A cache over these answers of identity, the last one repeated. */
  function keys(...answers: (VerifiedKey | undefined | Error)[]): ApiKeyCache {
    return new ApiKeyCache((asked) => {
      calls.push(asked);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    });
  }
  /** Lets time pass and background calls finish. */
  const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

  beforeEach(() => {
    calls = [];
    jest.useFakeTimers({ now: start });
  });
  afterEach(() => jest.useRealTimers());

  test('is one call for concurrent requests, and cached from then on', async () => {
    const own = keys(key);
    expect(await Promise.all([own.find(text), own.find(text)])).toEqual([known, known]);
    expect(own.find(text)).toEqual(known);
    expect(calls).toEqual([text]);
  });

  test('is cached for three seconds from the start of the call, also the answer that there is no such key', async () => {
    for (const [answer, found] of [
      [key, known],
      [undefined, null],
    ] as const) {
      calls = [];
      const own = keys(answer);
      await own.find(text);
      await pass(2500);
      expect(own.find(text)).toEqual(found);
      expect(calls).toHaveLength(1);
      await pass(500);
      const again = own.find(text);
      expect(again).toBeInstanceOf(Promise);
      expect(await again).toEqual(found);
      expect(calls).toHaveLength(2);
    }
  });

  test('is refreshed by one call, for which requests wait when the entry ends before its answer', async () => {
    const answers: PromiseWithResolvers<VerifiedKey | undefined>[] = [];
    const own = new ApiKeyCache(() => {
      const answer = Promise.withResolvers<VerifiedKey | undefined>();
      answers.push(answer);
      return answer.promise;
    });
    const first = own.find(text);
    answers[0]!.resolve(key);
    await first;
    await pass(2501);
    expect(own.find(text)).toEqual(known);
    await pass(499);
    const waiting = own.find(text);
    expect([waiting, answers.length]).toEqual([expect.any(Promise), 2]);
    answers[1]!.resolve(undefined);
    expect(await waiting).toBeNull();
    expect(own.find(text)).toBeNull();
  });

  test('is overloaded beyond 500 unknown keys at once, and a known key is still refreshed', async () => {
    const answers: (() => void)[] = [];
    const own = new ApiKeyCache((asked) => {
      calls.push(asked);
      return new Promise((done) => answers.push(() => done(asked === text ? key : undefined)));
    });
    const first = own.find(text);
    answers[0]!();
    await first;
    const flood = Array.from({ length: 500 }, () => own.find(newKeyText(newId('key'))));
    await expect(own.find(newKeyText(newId('key')))).rejects.toMatchObject({ code: 'overloaded' });
    await pass(2501);
    expect(own.find(text)).toEqual(known);
    expect(calls.filter((each) => each === text)).toHaveLength(2);
    for (const answer of answers) answer();
    expect(new Set(await Promise.all(flood.map(async (each) => each)))).toEqual(new Set([null]));
  });

  test('is used until it ends while identity is away, and is an error from then on', async () => {
    const own = keys(key, new Error('identity is away'));
    await own.find(text);
    await pass(2501);
    expect(own.find(text)).toEqual(known);
    await pass(498);
    expect(own.find(text)).toEqual(known);
    await pass(1);
    await expect(own.find(text)).rejects.toThrow('identity is away');
    await expect(own.find(text)).rejects.toThrow('identity is away');
  });

  test('ends when the key expires', async () => {
    const own = keys(create(VerifiedKeySchema, { ...key, expiresMs: BigInt(start + 1000) }));
    expect(await own.find(text)).toEqual({ ...known, expiresMs: start + 1000 });
    await pass(999);
    expect(own.find(text)).toMatchObject({ expiresMs: start + 1000 });
    await pass(1);
    expect(own.find(text)).toBeNull();
    await pass(5000);
    expect(await own.find(text)).toBeNull();
    expect(calls).toHaveLength(2);
  });

  test('is never requested for what cannot be a key', () => {
    const own = keys(key);
    expect([own.find(''), own.find(`${text}0`)]).toEqual([null, null]);
    expect(calls).toEqual([]);
  });

  test('is cached for ten thousand valid and as many invalid keys; the oldest is evicted first', async () => {
    const texts = Array.from({ length: 10_001 }, () => newKeyText(newId('key')));
    for (const answer of [key, undefined]) {
      const own = keys(answer);
      for (const each of texts) await own.find(each);
      calls = [];
      for (const each of texts.slice(1)) void own.find(each);
      expect(calls).toEqual([]);
      await own.find(texts[0]!);
      expect(calls).toEqual([texts[0]]);
    }
  });

  test('of a valid key is not evicted by a flood of invalid ones', async () => {
    const good = new Set([text]);
    const own = new ApiKeyCache((asked) => {
      calls.push(asked);
      return Promise.resolve(good.has(asked) ? key : undefined);
    });
    await own.find(text);
    for (let count = 0; count < 10_001; count += 1) await own.find(newKeyText(newId('key')));
    calls = [];
    expect(own.find(text)).toEqual(known);
    expect(calls).toEqual([]);
  });
});
