// Files that an import does not begin with, and what an export writes so that it is read the same.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { currentRun } from '../../../test/run.ts';
import { Ledger, type Transaction } from '../../clients/typescript/ledger.ts';
import { formats } from '../export/formats.ts';
import { AccountMap } from './accounts.ts';
import { Importer } from './check.ts';
import { readByProgram } from './program.ts';
import { importFile, type Source } from './run.ts';
import type { Posting } from './unit.ts';

// Nothing listens there: nothing is asked.
const ledger = new Ledger({ url: 'http://127.0.0.1:1', tenant: 'acme', key: 'k' });
const directory = mkdtempSync(join(currentRun().directory, 'import-file-'));

function attempt(source: Source, content: string | Uint8Array, columns?: Record<string, string>): Promise<unknown> {
  const file = join(directory, 'file');
  writeFileSync(file, content);
  return importFile(ledger, { source, file, ...(columns && { columns }) });
}

test('what is no file, not UTF-8 or of a wrong form is refused with the reason', async () => {
  await expect(importFile(ledger, { source: 'csv', file: directory })).rejects.toThrow(/is not a file$/);
  await expect(attempt('csv', Buffer.from('date,description\n2026-01-02,M\xfcller\n', 'latin1'))).rejects.toThrow(/is not UTF-8$/);
  await expect(attempt('csv', 'id;date\n1;2026-01-02\n')).rejects.toThrow(/it has no column date, only id;date\./);
  await expect(attempt('csv', 'id,date\n1,2026-01-02\n', { id: 'Ref' })).rejects.toThrow(/it has no column Ref$/);
  await expect(attempt('csv', 'id,date\n1,"2026-01-02\n')).rejects.toThrow(/Quote Not Closed/);
  await expect(attempt('blnk', '{"x":')).rejects.toThrow(/Unexpected end of JSON/);
});

test('a program that reports a fault and ends well has read only a part', async () => {
  await expect(readByProgram('sh', ['-c', 'echo part; echo syntax error >&2'], '')).rejects.toThrow(/can't read the file: syntax error$/);
});

test('an id that stands for two transactions is refused before anything is posted; the same again is left out', () => {
  const importer = new Importer(new AccountMap([], () => 'asset'), 'csv');
  const posting = (where: string, minor: bigint): Posting => {
    const line = { minor, currency: 'USD' };
    const lines = [
      { ...line, account: 'A', side: 'debit' as const },
      { ...line, account: 'B', side: 'credit' as const },
    ];
    return { kind: 'posting', where, id: '7', date: '2026-01-02', description: '', lines };
  };
  expect(importer.itemOf(posting('line 2', 100n))).toBeDefined();
  expect([posting('line 5', 100n), posting('line 9', 200n)].map((each) => importer.itemOf(each))).toEqual([undefined, undefined]);
  expect(importer.counts).toMatchObject({ postings: 1, refused: 1 });
  expect([...importer.skipped.values()]).toEqual([1]);
  expect(importer.refusals).toEqual([{ where: 'line 9', reason: 'another transaction before it has the id 7' }]);
});

test('a description that looks like a code or a status of hledger stays a description', () => {
  const { transaction } = formats.hledger();
  const text = (description: string, reference: string | null) =>
    transaction({ transaction_id: 't', effective_at: '2026-01-02', description, reference, entries: [] } as unknown as Transaction);
  expect(text('(refund) order', null)).toMatch(/^2026-01-02 \(\) \(refund\) order /);
  expect(text('* starred', '')).toMatch(/^2026-01-02 \(\) \* starred /);
  expect(text('Sale', null)).toMatch(/^2026-01-02 Sale /);
});
