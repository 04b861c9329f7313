import { jest } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { VerifiedKeySchema, type VerifiedKey } from '../proto/gen/identity/v1/identity_pb.js';
import { newId } from '../services/platform/ids.ts';
import { newKeyText } from '../services/identity/credentials.ts';
import { ApiKeyCache, isWellFormedKey } from './api-keys.ts';

test('every key that identity makes looks like one', () => {
  for (let count = 0; count < 200; count += 1) expect(isWellFormedKey(newKeyText(newId('key')))).toBe(true);
});

test('a key with any character changed, or one more or less, does not', () => {
  const text = newKeyText(newId('key'));
  for (let place = 0; place < text.length; place += 1) {
    const other = text[place] === '1' ? '2' : '1';
    expect([place, isWellFormedKey(text.slice(0, place) + other + text.slice(place + 1))]).toEqual([place, false]);
  }
  for (const bad of ['', text.slice(1), text.slice(0, -1), `${text}0`, ` ${text}`, text.toUpperCase()])
    expect(isWellFormedKey(bad)).toBe(false);
});

describe('what identity said of a key', () => {
  const text = newKeyText(newId('key'));
  const key = create(VerifiedKeySchema, { keyId: 'key_1', tenantId: 'tenant_1', tenantSlug: 'acme', scopes: ['accounts:read'] });
  const known = { actor: 'key_1', tenantId: 'tenant_1', slug: 'acme', scopes: new Set(['accounts:read']), expiresMs: Infinity };
  const start = 1_700_000_000_000;
  let calls: string[];

  /** Keys of an identity that answers so, one answer a call and the last one ever after. */
  function keys(...answers: (VerifiedKey | undefined | Error)[]): ApiKeyCache {
    return new ApiKeyCache((asked) => {
      calls.push(...asked);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(asked.map(() => answer));
    });
  }
  /** Lets time pass, and what was asked in the background be answered. */
  const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

  beforeEach(() => {
    calls = [];
    jest.useFakeTimers({ now: start });
  });
  afterEach(() => jest.useRealTimers());

  test('is asked for once by all who ask at once, and answers at once from then on', async () => {
    const own = keys(key);
    expect(await Promise.all([own.find(text), own.find(text)])).toEqual([known, known]);
    expect(own.find(text)).toEqual(known);
    expect(calls).toEqual([text]);
  });

  test('holds for three seconds from the question, also that there is no such key', async () => {
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

  test('is asked for again in the background after two and a half seconds, so that a busy key never waits', async () => {
    const own = keys(key, undefined);
    await own.find(text);
    await pass(2501);
    expect([own.find(text), own.find(text)]).toEqual([known, known]);
    await pass(99);
    expect(calls).toHaveLength(1);
    await pass(1);
    expect(calls).toHaveLength(2);
    expect(own.find(text)).toBeNull();
  });

  test('is asked for anew, and not waited for, where the question in the background has no answer when its time is up', async () => {
    const answers: PromiseWithResolvers<(VerifiedKey | undefined)[]>[] = [];
    const own = new ApiKeyCache(() => {
      const answer = Promise.withResolvers<(VerifiedKey | undefined)[]>();
      answers.push(answer);
      return answer.promise;
    });
    const askTwice = async () => {
      const first = own.find(text);
      answers.shift()?.resolve([key]);
      await first;
      await pass(2501);
      expect(own.find(text)).toEqual(known);
      await pass(499);
      expect(answers).toHaveLength(1);
      const waiting = [own.find(text), own.find(text)];
      expect(answers).toHaveLength(2);
      const [background, anew] = answers.splice(0);
      return { waiting: Promise.all(waiting.map(async (each) => each)), background, anew };
    };
    // The later question tells, also where the one before is answered after it.
    const revoked = await askTwice();
    revoked.anew?.resolve([undefined]);
    expect(await revoked.waiting).toEqual([null, null]);
    revoked.background?.resolve([key]);
    await pass(0);
    expect(own.find(text)).toBeNull();
    await pass(3000);
    // Whichever is answered first is enough for who waits.
    const good = await askTwice();
    good.background?.resolve([key]);
    expect(await good.waiting).toEqual([known, known]);
    good.anew?.reject(new Error('identity is away'));
    await pass(0);
    expect(own.find(text)).toEqual(known);
  });

  test('is asked for again together with what it said of others, up to a hundred at a time, and each gets its own answer', async () => {
    const texts = Array.from({ length: 101 }, () => newKeyText(newId('key')));
    const valid = new Set(texts);
    const sizes: number[] = [];
    const own = new ApiKeyCache((asked) => {
      sizes.push(asked.length);
      return Promise.resolve(asked.map((each) => (valid.has(each) ? key : undefined)));
    });
    for (const each of texts) await own.find(each);
    await pass(2501);
    for (const revoked of [3, 100]) valid.delete(texts[revoked]!);
    for (const each of texts) expect(own.find(each)).toEqual(known);
    await pass(100);
    expect(sizes.slice(texts.length)).toEqual([100, 1]);
    for (const each of texts) expect(own.find(each)).toEqual(valid.has(each) ? known : null);
    expect(sizes).toHaveLength(texts.length + 2);
  });

  test('is asked for together with what is not known of others while eight calls are under way, and each gets its own answer', async () => {
    const texts = Array.from({ length: 2_000 }, () => newKeyText(newId('key')));
    const sizes: number[] = [];
    const answers: (() => void)[] = [];
    const own = new ApiKeyCache((asked) => {
      sizes.push(asked.length);
      return new Promise((done) => answers.push(() => done(asked.map((each) => (each === texts[1_500] ? key : undefined)))));
    });
    const found = texts.map((each) => own.find(each));
    expect(sizes).toEqual(Array(8).fill(1));
    expect(own.find(texts[1_999]!)).toBe(found[1_999]);
    answers.splice(0, 2).forEach((answer) => answer());
    await pass(0);
    expect(sizes.slice(8)).toEqual([1_000, 992]);
    answers.forEach((answer) => answer());
    expect(await Promise.all(found.map(async (each) => each))).toEqual(texts.map((_, place) => (place === 1_500 ? known : null)));
    expect(own.find(texts[1_999]!)).toBeNull();
  });

  test('holds as long where identity is away meanwhile, and then whoever asks is told that it is', async () => {
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

  test('ends with the key’s own time, whenever it was asked for', async () => {
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

  test('is changed by what it says later: a key that was unknown may be known, and the other way round', async () => {
    const own = keys(undefined, key, undefined);
    expect(await own.find(text)).toBeNull();
    await pass(3000);
    expect(await own.find(text)).toEqual(known);
    expect(own.find(text)).toEqual(known);
    await pass(3000);
    expect(await own.find(text)).toBeNull();
    expect(own.find(text)).toBeNull();
    expect(calls).toHaveLength(3);
  });

  test('is never asked for what can’t be a key', () => {
    const own = keys(key);
    expect([own.find(''), own.find(`${text}0`)]).toEqual([null, null]);
    expect(calls).toEqual([]);
  });

  test('is remembered of ten thousand keys, those that exist or those that do not; the oldest is forgotten first', async () => {
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

  test('of keys that exist is not pushed out by a flood of those that do not', async () => {
    const good = new Set([text]);
    const own = new ApiKeyCache((asked) => {
      calls.push(...asked);
      return Promise.resolve(asked.map((each) => (good.has(each) ? key : undefined)));
    });
    await own.find(text);
    for (let count = 0; count < 10_001; count += 1) await own.find(newKeyText(newId('key')));
    calls = [];
    expect(own.find(text)).toEqual(known);
    expect(calls).toEqual([]);
  });
});
