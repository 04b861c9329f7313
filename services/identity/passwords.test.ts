import { Registry } from 'prom-client';
import { Passwords } from './passwords.ts';
import { Refusal } from './refusal.ts';

const open = (limits: { concurrency: number; queue: number }) => new Passwords(new Registry(), limits);

test('a password is kept as argon2id with the parameters that OWASP asks for', async () => {
  expect(await open({ concurrency: 1, queue: 1 }).hash('correct horse')).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
});

test('the right password is right, another is wrong, and without a hash none is right', async () => {
  const passwords = open({ concurrency: 1, queue: 5 });
  const stored = await passwords.hash('correct horse');
  expect(await passwords.verify(stored, 'correct horse')).toBe(true);
  expect(await passwords.verify(stored, 'Correct horse')).toBe(false);
  expect(await passwords.verify(null, 'correct horse')).toBe(false);
  expect(await passwords.verify(null, 'the password of unknown users')).toBe(false);
});

test('beyond the queue a computation is refused as overloaded, and those that wait are done in their order', async () => {
  const passwords = open({ concurrency: 1, queue: 2 });
  const done: number[] = [];
  const work = [0, 1, 2].map((number) => passwords.hash('correct horse').then(() => done.push(number)));
  const refused = await passwords.hash('correct horse').catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Refusal);
  expect(refused).toMatchObject({ reason: 'overloaded', details: { retryAfter: 2 } });
  await Promise.all(work);
  expect(done).toEqual([0, 1, 2]);
  await passwords.hash('there is room again');
});

test('a client that disconnected while it waited takes no computation', async () => {
  const metrics = new Registry();
  const passwords = new Passwords(metrics, { concurrency: 1, queue: 5 });
  const gone = new AbortController();
  const first = passwords.hash('correct horse');
  const second = passwords.hash('correct horse', { signal: gone.signal });
  const third = passwords.hash('correct horse');
  gone.abort();
  await expect(second).rejects.toThrow('aborted');
  await Promise.all([first, third]);
  expect(await metrics.metrics()).toContain('identity_passwords_total{operation="hash"} 2');
});

describe('of two addresses', () => {
  /** What is settled, in its order: who asked, and how it ended. */
  const asked = () => {
    const passwords = open({ concurrency: 1, queue: 4 });
    const ends: string[] = [];
    const ask = (address: string) =>
      passwords.hash('correct horse', { address }).then(
        () => ends.push(`${address} done`),
        (error: Refusal) => ends.push(`${address} ${error.reason}`),
      );
    return { ask, ends };
  };

  test('one with many computations waits for them all, and the other for one of them', async () => {
    const { ask, ends } = asked();
    const many = [ask('many'), ask('many'), ask('many'), ask('many')];
    await ask('one');
    expect(ends).toEqual(['many done', 'one done']);
    await Promise.all(many);
    expect(ends).toEqual(['many done', 'one done', 'many done', 'many done', 'many done']);
  });

  test('one that fills the queue loses its newest computation to the other, and gets no more places', async () => {
    const { ask, ends } = asked();
    const many = Array.from({ length: 6 }, () => ask('many'));
    await ask('one');
    await Promise.all(many);
    expect(ends).toEqual(['many overloaded', 'many overloaded', 'many done', 'one done', 'many done', 'many done', 'many done']);
  });
});
