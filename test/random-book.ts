// A ledger and an auditor with a random book: several currencies, dated postings, cash, and metadata that reports read.
import { randomInt } from 'node:crypto';
import { signedMinor } from '../services/platform/money.ts';
import { startAuditor, type RunningAuditor } from './auditor.ts';
import { newTenant, startLedger, type RunningLedger } from './ledger.ts';

const accounts = [
  { accountCode: 'CASH', type: 'asset', isGroup: true },
  { accountCode: 'BANK', type: 'asset', parentCode: 'CASH' },
  { accountCode: 'TILL', type: 'asset', parentCode: 'CASH' },
  { accountCode: 'MACHINE', type: 'asset', metadata: '{"cash_flow": "investing"}' },
  { accountCode: 'LOAN', type: 'liability', metadata: '{"cash_flow": "financing"}' },
  { accountCode: 'CAPITAL', type: 'equity' },
  { accountCode: 'SALES', type: 'revenue', metadata: '{"unit": "shop"}' },
  { accountCode: 'RENT', type: 'expense' },
  { accountCode: 'EURO', type: 'asset', currency: 'EUR' },
];
/** Codes of all that are posted to. */
export const leaves = ['BANK', 'TILL', 'MACHINE', 'LOAN', 'CAPITAL', 'SALES', 'RENT'];
/** Those that are cash, as the books say. */
export const cash = ['BANK', 'TILL'];
/** Those that a debit raises. */
export const debitNormal = ['BANK', 'TILL', 'MACHINE', 'RENT', 'EURO'];

interface Entry {
  code: string;
  side: string;
  minor: bigint;
  currency: string;
  balanceAfter: bigint;
}

/** A transaction of the log; its times are milliseconds since the Unix epoch. */
export interface Posted {
  sequence: number;
  createdMs: number;
  effectiveMs: number;
  entries: Entry[];
}

/** The book with its processes. */
export interface RandomBook {
  ledger: RunningLedger;
  auditor: RunningAuditor;
  /** UUID and TypeID. */
  tenant: string;
  tenantId: string;
  post(): Promise<void>;
}

/** Starts both and posts 150 transactions. */
export async function openRandomBook(): Promise<RandomBook> {
  const { tenant, tenantId } = newTenant();
  const ledger = await startLedger();
  const auditor = await startAuditor(ledger.database);
  await ledger.client.createAccounts({
    tenantId,
    accounts: accounts.map((account) => ({ name: `Name of ${account.accountCode}`, ...account })),
  });
  const settings = { timezone: 'Africa/Lagos', cashAccounts: { items: ['CASH'] }, indexedMetadata: { items: ['channel'] } };
  await ledger.client.updateBooks({ tenantId, ...settings });
  const book = { ledger, auditor, tenant, tenantId, post: () => post(ledger, tenantId) };
  for (let round = 0; round < 150; round++) await book.post();
  return book;
}

async function post(ledger: RunningLedger, tenantId: string): Promise<void> {
  const lines = Array.from({ length: randomInt(1, 3) }, () => ({
    amount: (randomInt(1, 1_000_000) / 100).toFixed(2),
    currency: ['NGN', 'USD'][randomInt(2)]!,
  }));
  const code = () => leaves[randomInt(leaves.length)]!;
  const entries = lines.flatMap((line) => [
    { ...line, accountCode: code(), side: 'debit' },
    { ...line, accountCode: code(), side: 'credit' },
  ]);
  const isDated = randomInt(3) > 0;
  const effectiveMs = BigInt(Date.UTC(2026, randomInt(6), randomInt(1, 29), randomInt(24)));
  const description = ['Rent of June', '=1+1', '-5'][randomInt(3)]!;
  const metadata = ['{}', '{"channel": "web"}', '{"channel": "shop"}'][randomInt(3)]!;
  await ledger.client.postTransaction({ posting: { tenantId, entries, description, metadata, ...(isDated && { effectiveMs }) } });
}

/** The transactions of its log, and the log's last sequence. */
export async function readLog({ ledger, tenantId }: RandomBook): Promise<{ log: Posted[]; head: number }> {
  const log: Posted[] = [];
  let head = 0;
  for (let more = true; more;) {
    const page = await ledger.client.listEvents({ tenantId, afterSequence: BigInt(head), limit: 100 });
    for (const { data, sequence, createdMs } of page.events) {
      head = Number(sequence);
      if (data.case !== 'transactionPosted') continue;
      const entries = data.value.entries.map(({ accountCode, side, amount, currency, balanceAfter }) => ({
        ...{ code: accountCode, side, minor: signedMinor(amount)!, currency, balanceAfter: signedMinor(balanceAfter)! },
      }));
      log.push({ sequence: head, createdMs: Number(createdMs), effectiveMs: Number(data.value.effectiveMs ?? createdMs), entries });
    }
    more = page.hasMore;
  }
  return { log, head };
}
