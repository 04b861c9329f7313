// The time of an answer must not reveal whether an account or an API key exists: medians of alternating requests are compared, and where
// they differ, once more and longer.
import { randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
import pg from 'pg';
import { idOfKeyText, newKeyText } from '../../services/identity/credentials.ts';
import { newId } from '../../services/platform/ids.ts';
import type { Cluster, Person, Tenant } from '../cluster.ts';
import { sharedCluster } from '../shared-cluster.ts';

jest.setTimeout(180_000);

let cluster: Cluster;
let ada: Person;
let tenant: Tenant;
let key: string;
let database: pg.Client;

beforeAll(async () => {
  cluster = await sharedCluster();
  ada = await cluster.signUp();
  tenant = await cluster.tenant({ person: ada });
  key = await cluster.apiKey(tenant);
  database = new pg.Client({ connectionString: cluster.databases.identity.adminUrl });
  await database.connect();
});
afterAll(async () => {
  await database.end();
  await cluster.stop();
});

const median = (values: number[]) => values.sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;

type Ask = () => Promise<unknown>;
const nothing: Ask = async () => undefined;

/** The median times of both, milliseconds; each is first in every other round. `before` is not measured. */
async function inTurns(rounds: number, known: Ask, unknown: Ask, before: Ask): Promise<[number, number]> {
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    for (const index of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      await before();
      const began = performance.now();
      await (index === 0 ? known : unknown)();
      times[index].push(performance.now() - began);
    }
  }
  return [median(times[0]), median(times[1])];
}

/** Expects that neither takes twice as long as the other. */
async function expectAlike(rounds: number, known: Ask, unknown: Ask, before: Ask = nothing): Promise<void> {
  const alike = ([one, other]: [number, number]) => one / other > 0.5 && one / other < 2;
  await inTurns(5, known, unknown, before);
  if (alike(await inTurns(rounds, known, unknown, before))) return;
  const again = await inTurns(rounds * 3, known, unknown, before);
  expect({ known: again[0], unknown: again[1], alike: alike(again) }).toMatchObject({ alike: true });
}

/** The sum of a metric of identity over the matching labels. */
async function metric(name: string, label = ''): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl('identity')}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name) && line.includes(label));
  expect(lines.length).toBeGreaterThan(0);
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const unknownEmail = () => `nobody.${randomBytes(6).toString('hex')}@example.com`;

test('a wrong password takes as long for a known user as for an unknown one, and is answered the same', async () => {
  const answers = { known: new Set<string>(), unknown: new Set<string>() };
  const login = async (email: string, seen: Set<string>) => {
    const { status, body, headers } = await cluster.rest('POST', '/v1/auth/login', { body: { email, password: 'wrong password' } });
    const names = [...headers.keys()].sort().join();
    seen.add(JSON.stringify([status, { ...body, request_id: '' }, names, headers.get('content-length')]));
  };
  // Otherwise the limit of failed logins would answer first.
  const forget = () => database.query('delete from login_failures');
  await expectAlike(
    15,
    () => login(ada.email, answers.known),
    () => login(unknownEmail(), answers.unknown),
    forget,
  );
  expect([...answers.unknown]).toEqual([...answers.known]);
});

test('a wrong password costs the same work for a known user as for an unknown one', async () => {
  const work = async (email: string) => {
    const metrics = () => Promise.all([metric('identity_passwords_total'), metric('grpc_server_seconds_count', 'IdentityService/Login')]);
    const before = await metrics();
    expect((await cluster.rest('POST', '/v1/auth/login', { body: { email, password: 'wrong password' } })).status).toBe(401);
    return (await metrics()).map((value, index) => value - before[index]!);
  };
  await database.query('delete from login_failures');
  expect(await work(ada.email)).toEqual([1, 1]);
  expect(await work(unknownEmail())).toEqual([1, 1]);
});

test('a forgotten password takes as long for a known user as for an unknown one, and is answered the same', async () => {
  const answers = { known: new Set<string>(), unknown: new Set<string>() };
  const forget = async (email: string, seen: Set<string>) => {
    const { status, body, headers } = await cluster.rest('POST', '/v1/auth/password/forgot', { body: { email } });
    seen.add(JSON.stringify([status, body, [...headers.keys()].sort().join(), headers.get('content-length')]));
  };
  // Otherwise the limit of mails would answer first.
  const clear = () => database.query('delete from mails');
  await expectAlike(
    40,
    () => forget(ada.email, answers.known),
    () => forget(unknownEmail(), answers.unknown),
    clear,
  );
  expect([...answers.known]).toEqual([...answers.unknown]);
  expect(answers.known.size).toBe(1);
});

describe('an API key', () => {
  const path = () => `/v1/tenants/${tenant.slug}/accounts`;
  const ask = async (text: string) => {
    const { status, body, headers } = await cluster.rest('GET', path(), { key: text });
    return [status, body.code, body.error, [...headers.keys()].sort().join()];
  };
  // A new key each time, because the gateway caches answers.
  const wrongSecret = () => newKeyText(idOfKeyText(key) ?? '');
  const unknownId = () => newKeyText(newId('key'));

  test('of a known id with another secret is answered like one of an unknown id, after as long', async () => {
    expect(await ask(wrongSecret())).toEqual(await ask(unknownId()));
    await expectAlike(
      150,
      () => ask(wrongSecret()),
      () => ask(unknownId()),
    );
  });

  test('of a known id with another secret costs the one call that one of an unknown id costs', async () => {
    const calls = () => metric('grpc_server_seconds_count', 'IdentityService/VerifyApiKey');
    for (const make of [wrongSecret, unknownId]) {
      const before = await calls();
      for (let count = 0; count < 10; count += 1) expect((await ask(make()))[0]).toBe(401);
      expect((await calls()) - before).toBe(10);
    }
  });
});
