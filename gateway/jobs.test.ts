// Jobs over REST: their records, results with ranges, and who may have them.
import { createHash, randomBytes } from 'node:crypto';
import { newId } from '../services/platform/ids.ts';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import type { Tenant } from '../test/cluster.ts';
import { addJob } from '../test/jobs.ts';
import { byteRange } from './byte-ranges.ts';

let cluster: CheckedCluster;
let tenant: Tenant;
let key: string;
const bytes = randomBytes(1_300_000);
const sha256 = createHash('sha256').update(bytes).digest('hex');

beforeAll(async () => {
  cluster = await startCheckedCluster();
  tenant = await cluster.tenant();
  key = await cluster.apiKey(tenant, ['reports:read']);
});
afterAll(() => cluster.stop());

const add = (more?: Parameters<typeof addJob>[3]) => addJob(cluster.databases.ledger.adminUrl, tenant.id, bytes, more);
const ask = (method: string, path: string, with_ = key) => cluster.rest(method, `/v1/tenants/${tenant.slug}/jobs${path}`, { key: with_ });
const download = async (id: string, headers: Record<string, string> = {}, method = 'GET') => {
  const answer = await fetch(`${cluster.url}/v1/tenants/${tenant.slug}/jobs/${id}/result`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
};
const digest = (body: Buffer) => createHash('sha256').update(body).digest('hex');

test('a job is read, listed and removed', async () => {
  const id = await add();
  const { body } = await ask('GET', `/${id}`);
  const result = { content_type: 'text/csv; charset=utf-8', bytes: bytes.length, sha256 };
  expect(body.data.job).toMatchObject({ id, kind: 'journal', status: 'succeeded', progress: { done: 1, total: 1 }, error: null, result });
  expect(Date.parse(body.data.job.expires_at) - Date.parse(body.data.job.finished_at)).toBe(7 * 86_400_000);
  expect((await ask('GET', '?limit=1')).body.data).toMatchObject({ jobs: [{ id }], pagination: { limit: 1, has_more: false } });
  expect((await ask('DELETE', `/${id}`)).body.data).toEqual({ id, deleted: true });
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/result'],
  ] as const) {
    const { status, body: gone } = await ask(method, `/${id}${path}`);
    expect([status, gone.code]).toEqual([404, 'job_not_found']);
  }
  expect((await ask('GET', '/job_1')).body.details).toEqual({ field: 'job_id', tag: 'id', value: 'job_1' });
  expect((await ask('GET', `/${newId('job')}/result`)).status).toBe(404);
});

test('a result comes whole or in parts, which join to the whole', async () => {
  const id = await add();
  const whole = await download(id);
  expect([whole.status, digest(whole.body)]).toEqual([200, sha256]);
  const head = { etag: `"${sha256}"`, 'accept-ranges': 'bytes', 'content-type': 'text/csv; charset=utf-8' };
  expect(Object.fromEntries(whole.headers)).toMatchObject({ ...head, 'content-length': String(bytes.length) });
  const first = await download(id, { range: 'bytes=0-524288' });
  expect([first.status, first.headers.get('content-range')]).toEqual([206, `bytes 0-524288/${bytes.length}`]);
  const rest = await download(id, { range: 'bytes=524289-', 'if-range': head.etag });
  expect(digest(Buffer.concat([first.body, rest.body]))).toBe(sha256);
  const last = await download(id, { range: 'bytes=-10' });
  expect([last.status, last.body.equals(bytes.subarray(-10))]).toEqual([206, true]);
  const beyond = await download(id, { range: `bytes=${bytes.length}-` });
  expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${bytes.length}`]);
  expect(JSON.parse(beyond.body.toString())).toMatchObject({ success: false, code: 'range_not_satisfiable' });
  const bare = await download(id, {}, 'HEAD');
  expect([bare.status, bare.headers.get('etag'), bare.body.length]).toEqual([200, head.etag, 0]);
  expect(bare.headers.get('content-length')).toBe(String(bytes.length));
});

test('ranges are read as RFC 9110 says', () => {
  const of = (range?: string, ifRange?: string) => byteRange({ range, 'if-range': ifRange }, 100, '"e"');
  expect(of('bytes=10-19')).toEqual({ offset: 10, length: 10 });
  expect(of('BYTES=90-200')).toEqual({ offset: 90, length: 10 });
  expect(of('bytes=-200')).toEqual({ offset: 0, length: 100 });
  expect(of('bytes=5-', '"e"')).toEqual({ offset: 5, length: 95 });
  for (const ignored of [undefined, 'bytes=', 'bytes=-', 'bytes=9-5', 'bytes=0-1,3-4', 'lines=0-1', 'bytes=a-'])
    expect(of(ignored)).toBeNull();
  expect(of('bytes=5-', '"other"')).toBeNull();
  for (const none of ['bytes=100-', 'bytes=100-200', 'bytes=-0']) expect(of(none)).toBe('unsatisfiable');
});

test('a job whose start needed another scope is forbidden, and not listed', async () => {
  const id = await add({ scope: 'reconciliations:manage' });
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/result'],
  ] as const) {
    const { status, headers } = await ask(method, `/${id}${path}`);
    expect([status, headers.get('www-authenticate')]).toEqual([403, expect.stringContaining('scope="reconciliations:manage"')]);
  }
  const ids = (answer: { body: any }) => answer.body.data.jobs.map((job: { id: string }) => job.id);
  expect(ids(await ask('GET', ''))).not.toContain(id);
  const both = await cluster.apiKey(tenant, ['reports:read', 'reconciliations:manage']);
  expect(ids(await ask('GET', '', both))).toContain(id);
  expect((await ask('GET', `/${id}`, both)).status).toBe(200);
});
