// While a feature is off a ledger works as the version before, and refuses what that would have ignored.
import { ConnectError, Code } from '@connectrpc/connect';
import type { DescMessage } from '@bufbuild/protobuf';
import { withClient } from '../../deploy/local/databases.ts';
import { runCommand } from '../../test/audit.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { until } from '../../test/notifier.ts';
import {
  CaptureSchema,
  CreateAccountRequestSchema,
  EntrySchema,
  LedgerService,
  NewAccountSchema,
  PostingSchema,
  ReversalSchema,
  ReverseTransactionRequestSchema,
  UpdateAccountRequestSchema,
} from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../platform/ids.ts';
import { openPool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { features, openFeatureSwitch, refuseNewCalls, refuseNewFields, type IsEnabled } from './feature-switch.ts';

let ledger: RunningLedger;
const { tenantId } = newTenant();
const lines = entries('CASH debit 1.00 NGN', 'SALES credit 1.00 NGN');
const posting = { tenantId, entries: lines };
const require = [{ accountCode: 'CASH', currency: 'NGN', version: 0n }];
const limits = [{ currency: 'NGN', minAvailable: '0.00' }];
const account = { tenantId, accountCode: 'NEW', name: 'New', type: 'asset' };

beforeAll(async () => {
  ledger = await startLedger({ enabled: [] });
  for (const accountCode of ['CASH', 'SALES']) await ledger.client.createAccount({ ...account, accountCode });
});

afterAll(() => ledger.end());

const codeOf = (call: Promise<unknown>) => call.then(() => null).catch((error: unknown) => ConnectError.from(error).code);

test('what the version before has works: postings, reversals by either call, accounts, reads', async () => {
  const { client } = ledger;
  const { transaction } = await client.postTransaction({ posting });
  const { results } = await client.postTransactions({ postings: [posting, { ...posting, idempotencyKey: 'two' }] });
  expect(results.map(({ outcome }) => outcome.case)).toEqual(['transaction', 'transaction']);
  const reversal = { transactionId: transaction!.transactionId, description: 'Back' };
  const submitted = await client.submit({ tenantId, commands: [{ command: { case: 'reversal', value: reversal } }, command(posting)] });
  expect(submitted.results.map((each) => each.transaction?.kind)).toEqual(['reversal', 'double']);
  await client.updateAccount({ tenantId, accountCode: 'CASH', name: 'Till', allowNegative: true });
  expect((await client.listTransactions({ tenantId })).transactions).toHaveLength(5);
});

const command = (value: object) => ({ command: { case: 'posting' as const, value } });

test.each([
  ['require', { require }],
  ['valid_until', { validUntilMs: 1n }],
  ['override_reason', { overrideReason: 'x' }],
  ['exchange', { entries: [], exchange: {} }],
  ['dry_run', { dryRun: true }],
  ['entries[1].require', { entries: [lines[0]!, { ...lines[1]!, require: { version: 0n } }] }],
])('a posting with %s is refused, alone among others', async (field, more) => {
  const { client } = ledger;
  const refused = { reason: 'validation_failed', field, tag: 'unknown' };
  expect(await refusal(client.postTransaction({ posting: { ...posting, ...more } }))).toMatchObject(refused);
  const { results } = await client.postTransactions({ postings: [{ ...posting, ...more }, posting] });
  expect(results.map(({ outcome }) => outcome)).toMatchObject([{ case: 'refusal', value: refused }, { case: 'transaction' }]);
  // In this call it is a field of the call.
  if (field === 'dry_run') return;
  const submitted = await client.submit({ tenantId, commands: [command({ ...posting, ...more }), command(posting)] });
  expect(submitted.results).toMatchObject([{ refusal: refused }, { transaction: { kind: 'double' } }]);
});

test.each([
  ['amount', { amount: '1.00' }],
  ['entries', { entries: lines }],
  ['reference', { reference: 'R' }],
  ['metadata', { metadata: '{"a":1}' }],
  ['require', { require }],
])('a reversal with %s is refused', async (field, more) => {
  const value = { transactionId: newId('txn'), ...more };
  const { results } = await ledger.client.submit({ tenantId, commands: [{ command: { case: 'reversal', value } }] });
  expect(results).toMatchObject([{ refusal: { reason: 'validation_failed', field, tag: 'unknown' } }]);
});

test('limits and blocks of accounts, and calls that are atomic or only tried, are refused', async () => {
  const { client } = ledger;
  const tried = { tenantId, commands: [command(posting)] };
  const refused = [
    ['limits', client.createAccount({ ...account, limits })],
    ['accounts[1].blocked', client.createAccounts({ tenantId, accounts: [account, { ...account, blocked: ['debit'] }] })],
    ['limits', client.updateAccount({ tenantId, accountCode: 'CASH', limits: { limits: [] } })],
    ['blocked', client.updateAccount({ tenantId, accountCode: 'CASH', blocked: { sides: [] } })],
    ['atomic', client.submit({ ...tried, atomic: true })],
    ['dry_run', client.submit({ ...tried, dryRun: true })],
  ] as const;
  expect(await Promise.all(refused.map(([, call]) => refusal(call)))).toMatchObject(
    refused.map(([field]) => ({ reason: 'validation_failed', field, tag: 'unknown' })),
  );
  expect((await client.listAccounts({ tenantId })).accounts.map(({ accountCode }) => accountCode)).toEqual(['SALES', 'CASH']);
});

test('calls that the version before does not have answer UNIMPLEMENTED', async () => {
  const { client } = ledger;
  const holdId = newId('hold');
  const calls = [
    client.getHold({ tenantId, holdId }),
    client.listHolds({ tenantId }),
    client.getUsage({ tenantId }),
    client.putDefinition({ tenantId, kind: 'limit' }),
    client.deleteDefinition({ tenantId, kind: 'limit' }),
    client.getDefinition({ tenantId, kind: 'limit' }),
    client.listDefinitions({ tenantId, kind: 'limit' }),
    client.submit({ tenantId, commands: [command(posting), { command: { case: 'hold', value: { entries: lines } } }] }),
    client.submit({ tenantId, commands: [{ command: { case: 'capture', value: { holdId } } }] }),
    client.submit({ tenantId, commands: [{ command: { case: 'void', value: { holdId } } }] }),
  ];
  expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => Code.Unimplemented));
  // Tenants are deleted with and without payments.
  const before = `postTransaction postTransactions reverseTransaction submit getTransaction listTransactions setUpChart getHierarchy
    streamHierarchy createAccount createAccounts updateAccount getAccount listAccounts getBalance listBalanceHistory listEvents
    deleteTenant`.split(/\s+/);
  const ofBooks = ['updateBooks', 'closePeriod', 'reopenPeriod'];
  const ofProof = ['redactTransaction', 'eraseSubject'];
  // These write no event, so that an older ledger has nothing to ignore.
  const withoutEvents = ['getBooks', 'listPeriods', 'listDailyBalances', 'putFilter', 'deleteFilter', 'listFilters', 'getFilter'];
  for (const { localName } of LedgerService.methods) {
    const refuse = (isEnabled: IsEnabled) => () => refuseNewCalls(localName, { $typeName: '', commands: [] }, isEnabled);
    if (ofBooks.includes(localName)) expect(refuse(onlyPayments)).toThrow('not available until books are enabled');
    else if (ofProof.includes(localName)) expect(refuse(allButProof)).toThrow('not available until proof are enabled');
    else expect(refuse(onlyPayments)).not.toThrow();
    if ([...before, ...withoutEvents].includes(localName)) expect(refuse(none)).not.toThrow();
    else expect(refuse(none)).toThrow('are enabled');
  }
});

const none: IsEnabled = () => false;
const onlyPayments: IsEnabled = (feature) => feature === 'payments';
const allButProof: IsEnabled = (feature) => feature !== 'proof';

test.each<[DescMessage, number, IsEnabled]>([
  [PostingSchema, 12, none],
  [EntrySchema, 4, none],
  [CreateAccountRequestSchema, 14, none],
  [NewAccountSchema, 10, none],
  [UpdateAccountRequestSchema, 12, none],
  [PostingSchema, 17, onlyPayments],
  [PostingSchema, 18, allButProof],
  [CaptureSchema, 12, onlyPayments],
  [ReversalSchema, 11, onlyPayments],
  [ReverseTransactionRequestSchema, 9, onlyPayments],
])('every field of %s that the version before did not have is refused', ({ typeName, fields }, last, isEnabled) => {
  for (const { localName, number } of fields) {
    const refuse = () => refuseNewFields({ $typeName: typeName, [localName]: localName === 'entries' ? [] : 'x' }, isEnabled);
    if (number <= last) expect(refuse).not.toThrow();
    else expect(refuse).toThrow(/is not known here until (payments|books|proof) are enabled/);
  }
});

test('a ledger on a database without the rows has its features off, and on soon after the operator’s command, without a restart', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const logger = openLog('test', 'silent');
  const pool = openPool(database.serviceUrl, { name: 'test', max: 1, logger });
  const fresh = await openFeatureSwitch(pool, logger);
  expect(features.map(fresh.isOn)).toEqual([true, true, true]);
  await fresh.close();
  await withClient(database.ownerUrl, (client) => client.query('delete from enabled'));
  const later = await openFeatureSwitch(pool, logger, 20);
  try {
    expect(features.map(later.isOn)).toEqual([false, false, false]);
    for (const args of [
      ['enable'],
      ['enable', 'everything'],
      ['enable', 'payments', 'now'],
      ['enable', 'payments', '--tenant', newId('tenant')],
    ]) {
      expect(runCommand(database.ownerUrl, ...args)).toMatchObject({ status: 2, stderr: expect.stringContaining('error:') });
    }
    expect(runCommand(database.ownerUrl, 'enable', 'payments')).toMatchObject({
      ...{ status: 0, stdout: 'payments are enabled: ledgers use them within 2 s\n' },
    });
    await until(() => Promise.resolve(later.isOn('payments')));
    expect(later.isOn('books')).toBe(false);
    expect(runCommand(database.ownerUrl, 'enable', 'payments', 'books')).toMatchObject({
      ...{ status: 0, stdout: 'payments are enabled already\nbooks are enabled: ledgers use them within 2 s\n' },
    });
    await until(() => Promise.resolve(later.isOn('books')));
    // The service's role can't turn them off.
    await expect(pool.query('delete from enabled')).rejects.toMatchObject({ code: '42501' });
  } finally {
    await later.close();
    await pool.end();
    await database.drop();
  }
});
