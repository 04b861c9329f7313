import type { Http2ServerRequest } from 'node:http2';
import { describe, expect, test } from '@jest/globals';
import { Code, ConnectError } from '@connectrpc/connect';
import { refusalOf } from './caller.ts';
import { largeCall, placeOf } from './large-calls.ts';
import { Unfinished } from './unfinished.ts';

const large = largeCall + 1;
const huge = (8 << 20) + 1;
const left = new ConnectError('the caller has gone', Code.Canceled);

describe('calls with large messages', () => {
  test('are worked on one of a connection and two in all', async () => {
    const [mine, second] = [ask(large, 'one'), ask(large, 'one')];
    expect(await begun(mine, second)).toEqual([true, false]);
    const [another, third] = [ask(large, 'two'), ask(large, 'three')];
    expect(await begun(another, third, second)).toEqual([true, false, false]);
    (await mine.place)();
    expect(await begun(third, second)).toEqual([true, false]);
    (await another.place)();
    expect(await begun(second)).toEqual([true]);
    for (const { place } of [third, second]) (await place)();
  });

  test('of more than 8 MiB are worked on one in all, and who waits for that keeps no smaller one waiting', async () => {
    // One after the other: the second would find a turn among all.
    const first = ask(huge, 'one');
    expect(await begun(first)).toEqual([true]);
    const second = ask(huge, 'two');
    expect(await begun(second)).toEqual([false]);
    const smaller = ask(large, 'three');
    expect(await begun(smaller, second)).toEqual([true, false]);
    (await smaller.place)();
    (await first.place)();
    expect(await begun(second)).toEqual([true]);
    (await second.place)();
  });

  test('of more than 8 MiB wait for those of their connection without a turn that others wait for', async () => {
    const [first, mine, other] = [ask(large, 'one'), ask(huge, 'one'), ask(huge, 'two')];
    expect(await begun(first, mine, other)).toEqual([true, false, true]);
    (await other.place)();
    (await first.place)();
    expect(await begun(mine)).toEqual([true]);
    (await mine.place)();
  });

  test('that wait count among the messages that have not ended, and no longer when it is their turn', async () => {
    const two = 2 * (huge + 128);
    const unfinished = new Unfinished({ bytes: two, ms: 1 });
    const first = ask(huge, 'one', unfinished);
    expect(await begun(first)).toEqual([true]);
    const waiting = ['two', 'three'].map((caller) => ask(huge, caller, unfinished));
    await expect(ask(huge, 'four', unfinished).place).rejects.toMatchObject({
      code: Code.ResourceExhausted,
      rawMessage: 'too many bytes of messages that have not ended',
    });
    for (const { place } of [first, ...waiting]) (await place)();
    expect(unfinished.begin(Infinity).add({ length: two - 128 })).toBeUndefined();
  });

  test('of more than 8 MiB whose callers leave while they wait among the others keep nobody waiting', async () => {
    const smaller = ['one', 'two'].map((caller) => ask(large, caller));
    const gone = ask(huge, 'three');
    expect(await begun(...smaller, gone)).toEqual([true, true, false]);
    gone.caller.abort(left);
    await expect(gone.place).rejects.toBe(left);
    for (const { place } of smaller) (await place)();
    const next = ask(huge, 'four');
    expect(await begun(next)).toEqual([true]);
    (await next.place)();
  });

  test.each([
    ['more than 8 MiB', huge, 1],
    ['more than 1 MiB', large, 2],
  ])('of %s are refused where those of eight connections wait', async (_, bytes, most) => {
    const asked: Asked[] = [];
    for (let place = 0; place < most + 8; place++) {
      asked.push(ask(bytes, `${place}`));
      await begun();
    }
    const refused = await ask(bytes, 'more').place.catch((error: unknown) => error);
    expect(refusalOf(refused)).toMatchObject({ reason: 'overloaded', message: 'too many calls are waiting' });
    for (const { place } of asked) (await place)();
  });

  test('are refused where four of their connection wait, and whoever leaves gives his place in the line back', async () => {
    const first = ask(huge, 'one');
    const waiting = Array.from({ length: 4 }, () => ask(huge, 'one'));
    const refused = await ask(huge, 'one').place.catch((error: unknown) => error);
    expect(refusalOf(refused)).toMatchObject({ reason: 'overloaded', message: 'too many calls are waiting' });
    waiting[3]?.caller.abort(left);
    await expect(waiting[3]?.place).rejects.toBe(left);
    const next = ask(huge, 'one');
    for (const { place } of [first, ...waiting.toSpliced(3, 1), next]) (await place)();
  });
});

interface Asked {
  place: Promise<() => void>;
  caller: AbortController;
  isBegun: boolean;
}

const sessions = new Map<string, object>();

/** A call with a message of so many bytes on that connection. */
function ask(bytes: number, connection: string, unfinished = new Unfinished({ bytes: 1 << 30, ms: 1 })): Asked {
  const session = sessions.get(connection) ?? {};
  sessions.set(connection, session);
  const caller = new AbortController();
  const asked: Asked = {
    place: placeOf({ stream: { session } } as unknown as Http2ServerRequest, bytes, unfinished, caller.signal),
    caller,
    isBegun: false,
  };
  asked.place.then(
    () => (asked.isBegun = true),
    () => undefined,
  );
  return asked;
}

/** Which of them have begun, when all that can has. */
async function begun(...calls: Asked[]): Promise<boolean[]> {
  await new Promise(setImmediate);
  return calls.map(({ isBegun }) => isBegun);
}
