// The verifiers against a running deployment: each proof, consistency and export that it answers, by files copied to an empty directory.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../deploy/local/plan.ts';
import type { Cluster, Tenant } from './cluster.ts';
import { until } from './polling.ts';
import { currentRun } from './run.ts';
import { sharedCluster } from './shared-cluster.ts';

const directory = mkdtempSync(join(currentRun().directory, 'verifiers-'));
for (const name of ['verify.mjs', 'verify.py']) copyFileSync(join(root, 'deploy/verifier', name), join(directory, name));

/** What a verifier prints, after its exit status. */
async function verify(program: 'node' | 'python3', ...args: string[]): Promise<string> {
  const file = program === 'node' ? 'verify.mjs' : 'verify.py';
  const options = { cwd: directory, env: { PATH: process.env['PATH'] } };
  const { stdout, stderr, code } = await promisify(execFile)(program, [file, ...args], options).then(
    (ended) => ({ ...ended, code: 0 }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  return `${code} ${stdout}${stderr}`;
}

function save(name: string, content: string): string {
  writeFileSync(join(directory, name), content);
  return name;
}

describe('the verifiers', () => {
  let cluster: Cluster;
  let tenant: Tenant;
  let key: string;
  let slug: string;
  let vkey: string;

  const call = async (method: string, path: string, body?: object) =>
    (await cluster.rest(method, `/v1/tenants/${slug}/${path}`, { key, body })).body.data;
  const text = async (path: string) => {
    const answer = await fetch(`${cluster.url}/v1/tenants/${slug}/${path}`, { headers: { authorization: `Bearer ${key}` } });
    expect(answer.status).toBe(200);
    return answer.text();
  };
  const entries = (amount: string) => [
    { account_code: 'SETTLEMENT-NGN', side: 'debit', amount, currency: 'NGN' },
    { account_code: 'CUSTOMER-WALLETS-NGN', side: 'credit', amount, currency: 'NGN' },
  ];
  const post = async (amount: string) => (await call('POST', 'transactions/double-entry', { entries: entries(amount) })).transaction;

  beforeAll(async () => {
    cluster = await sharedCluster();
    tenant = await cluster.tenant();
    slug = tenant.slug;
    key = await cluster.apiKey(tenant);
    await call('POST', 'accounts/setup', { business_type: 'wallet' });
    await post('100.00');
    [{ vkey }] = (await call('GET', 'tlog/keys')).keys;
  });

  test('accept the proof of each event in both formats, with Node and with Python', async () => {
    const { transaction_id: id } = await post('12.50');
    const answers = ['proof', 'proof?format=tlog-proof'].map((path) => text(`transactions/${id}/${path}`));
    const files = (await Promise.all(answers)).map((answer, index) => save(`transaction-${index}`, answer));
    const line = new RegExp(`^0 verified: event \\d+ of \\d+, transaction.posted .*: ${id} debit SETTLEMENT-NGN 12.50 NGN, credit CUST`);
    for (const program of ['node', 'python3'] as const)
      for (const file of files) expect(await verify(program, 'proof', file, '--vkey', vkey)).toMatch(line);
    const { events } = await call('GET', 'events?limit=100');
    for (const { sequence, type } of events.filter((_: unknown, index: number) => index % 9 === 0)) {
      const file = save(`event-${sequence}`, await text(`events/${sequence}/proof`));
      const wanted = new RegExp(`^0 verified: event ${sequence} of \\d+, ${type} evt_`);
      const printed = await Promise.all([verify('node', 'proof', file, '--vkey', vkey), verify('python3', 'proof', file, '--vkey', vkey)]);
      for (const each of printed) expect(each).toMatch(wanted);
    }
  });

  test('prove by yesterday’s checkpoint that nothing before it has changed', async () => {
    const old = await text('tlog/checkpoint');
    const { sequence } = await post('1.00');
    // A proof needs a checkpoint that holds it.
    await text(`events/${sequence}/proof`);
    const now = await text('tlog/checkpoint');
    const sizes = [sizeOf(old), sizeOf(now)] as const;
    expect(sizes[1]).toBeGreaterThan(sizes[0]);
    const [before, after] = [save('old', old), save('new', now)];
    const file = save('consistency', await text(`tlog/consistency?old=${sizes[0]}&new=${sizes[1]}`));
    const printed = await verify('node', 'consistency', before, after, file, '--vkey', vkey);
    expect(printed).toMatch(new RegExp(`^0 verified: the first ${sizes[0]} of ${sizes[1]} events of .* have not changed\n$`));
    expect(await verify('node', 'consistency', after, before, file, '--vkey', vkey)).toBe('1 refused: the proof is of other checkpoints\n');
  });

  test('check a whole export: chain, tree, rules and balances, of postings, holds, captures, reversals, and changes of accounts', async () => {
    const { transaction_id: id } = await post('30.00');
    const held = await call('POST', 'holds', {
      entries: entries('40.00').map((each) => ({ ...each, side: each.side === 'debit' ? 'credit' : 'debit' })),
    });
    await call('POST', `holds/${held.hold.hold_id}/capture`, { amount: '15.00', final: false });
    await call('POST', `holds/${held.hold.hold_id}/void`, {});
    await call('POST', `transactions/${id}/reverse`, {});
    await call('POST', 'transactions', { account_code: 'CUSTOMER-WALLETS-USD', amount: '7.00', side: 'credit', currency: 'USD' });
    const { transaction } = await call('POST', 'transactions/double-entry', { entries: entries('9.00'), effective_at: '2026-01-31' });
    await call('PATCH', 'accounts/code/SETTLEMENT-NGN', { name: 'Bank' });
    await text(`events/${transaction.sequence}/proof`);
    const checkpoint = save('checkpoint', await text('tlog/checkpoint'));
    const whole = await text('export/events?format=ndjson');
    const check = (lines: string) => verify('node', 'export', save('export', lines), checkpoint, '--vkey', vkey);
    const count = whole.trimEnd().split('\n').length - 1;
    const signed = sizeOf(await text('tlog/checkpoint'));
    const line = `0 verified: ${count} events of ${vkey.split('+')[0]} follow the rules, ${signed} of them are signed`;
    expect(await check(whole)).toMatch(new RegExp(`^${line}, 197.50 NGN on both sides, 7.00 USD on both sides\n$`));
    const hidden = whole.replace(/"payload":("[^"]*")(.*)}/, '"payload":null$2,"redacted_payload":$1}');
    expect(await check(hidden)).toMatch(/^1 refused: line 1: .* can't be redacted\n$/);
    const lines = whole.split(/(?<=\n)/);
    const at = lines.findIndex((each) => each.includes('transaction.posted'));
    const without = (index: number) => lines.filter((_, each) => each !== index).join('');
    expect(await check(without(at))).toMatch(new RegExp(`^1 refused: line ${at + 1}: event ${at + 2} follows event ${at}\n$`));
    expect(await check(without(lines.length - 1))).toBe('1 refused: the last line is missing: the export was cut off\n');
    expect(await check(whole.replace(lines[at]!, lines[at]!.replace('"payload":"C', '"payload":"D')))).toMatch(
      /^1 refused: line \d+: the payload does not/,
    );
  });

  test('after erasure and redaction proofs hold and the export fits; what was imported is shown to be the log that it was', async () => {
    const personal = [{ subject: 'customer-42', data: { name: 'Ada Eze' } }];
    const written = { entries: entries('5.00'), description: 'Rent of Ada Eze', personal };
    const { transaction_id: id, sequence } = (await call('POST', 'transactions/double-entry', written)).transaction;
    const before = save('before', await text(`transactions/${id}/proof`));
    await call('POST', 'subjects/erase', { subject: 'customer-42' });
    const redaction = { fields: ['description'], reason: 'A name' };
    expect((await call('POST', `transactions/${id}/redact`, redaction)).transaction.redacted).toEqual(['description']);
    const after = save('after', await text(`transactions/${id}/proof`));
    for (const program of ['node', 'python3'] as const) {
      expect(await verify(program, 'proof', before, '--vkey', vkey)).toMatch(`: ${id} debit SETTLEMENT-NGN 5.00 NGN`);
      expect(await verify(program, 'proof', after, '--vkey', vkey)).toMatch(/^0 verified: .* \(without its payload\)\n$/);
    }
    const checkpoint = save('checkpoint', await text('tlog/checkpoint'));
    const whole = await text('export/events?format=ndjson');
    expect(whole).not.toContain('Ada Eze');
    const check = (lines: string) => verify('node', 'export', save('export', lines), checkpoint, '--vkey', vkey);
    expect(await check(whole)).toMatch(/^0 verified: /);
    const forged = whole.replace(/"redacted_payload":"([^"]*)"/, (_, payload: string) => {
      const bytes = Buffer.from(payload, 'base64').toString('latin1').replace(id.slice(-4), '0000');
      return `"redacted_payload":"${Buffer.from(bytes, 'latin1').toString('base64')}"`;
    });
    expect(await check(forged)).toMatch(/^1 refused: line \d+: txn_\w+ was redacted, and is not\n$/);
    const cut = whole.split('\n').filter((line) => !line.includes('transaction.redacted'));
    expect(await check(cut.join('\n'))).toMatch(/^1 refused: line \d+: /);
    await importInto(await cluster.tenant({ person: tenant.owner }), whole, Number(sequence) + 1);
  });

  /** Imports an export, and checks that of the new tenant. */
  async function importInto(target: Tenant, lines: string, redacted: number): Promise<void> {
    const own = { key: await cluster.apiKey(target), headers: { 'content-type': 'application/x-ndjson' } };
    const at = `/v1/tenants/${target.slug}`;
    const started = await cluster.rest('POST', `/v1/tenants/${target.id}/import`, { ...own, key: target.owner.token, body: lines });
    const job = async () => (await cluster.rest('GET', `${at}/jobs/${started.body.data.job.id}`, own)).body.data.job;
    expect(await until(job, ({ status }) => ['succeeded', 'failed'].includes(status))).toMatchObject({ error: null });
    const read = async (path: string) =>
      (await fetch(`${cluster.url}${at}/${path}`, { headers: { authorization: `Bearer ${own.key}` } })).text();
    await read(`events/${redacted}/proof`);
    const [key] = (await cluster.rest('GET', `${at}/tlog/keys`, own)).body.data.keys;
    const checkpoint = save('imported-checkpoint', await read('tlog/checkpoint'));
    const imported = await read('export/events?format=ndjson');
    const check = (text: string) => verify('node', 'export', save('imported', text), checkpoint, '--vkey', key.vkey);
    const count = lines.trimEnd().split('\n').length;
    expect(await check(imported)).toMatch(new RegExp(`^0 verified: ${count} events .*, what was imported is the log of ${tenant.id}, `));
  }
});

const sizeOf = (checkpoint: string): number => Number(checkpoint.split('\n')[1]);
