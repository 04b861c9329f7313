import { createHash } from 'node:crypto';
import { newUuid, toId } from '../platform/ids.ts';
import { append, chainHash, genesisHash, type Head, type LogRow, type NewEvent } from './log.ts';

const sha256 = (...parts: (string | Uint8Array)[]) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const head = (): Head => ({ tenant: newUuid(), sequence: 0n, hash: genesisHash, lastMs: 0, chart: 'wallet', rebuilt: 0n, frozen: false });
const event: NewEvent = { type: 'account.created', actor: 'key_1', requestId: 'request', payload: Buffer.from('what happened') };

test('the first event follows thirty-two zero bytes', () => {
  expect(genesisHash).toEqual(Buffer.alloc(32));
});

test('an event’s hash covers the previous hash and the hashes of header and payload, so that erasing a payload keeps the chain', () => {
  const row = append(head(), { ...event, traceparent: 'no part of it' }, 1_700_000_000_000);
  const header = [toId('tenant', row.tenant), 1, toId('evt', row.eventId), 'account.created', 1_700_000_000_000, 'key_1', 'request'];
  expect(row.hash).toEqual(sha256(genesisHash, sha256(JSON.stringify(header)), sha256(event.payload)));
  expect(chainHash(genesisHash, row)).toEqual(row.hash);
});

test('a change of any field, or of the previous hash, changes the hash', () => {
  const row = append(head(), event, 1_700_000_000_000);
  const changes: Partial<LogRow>[] = [
    { tenant: newUuid() },
    { sequence: 2n },
    { eventId: newUuid() },
    { type: 'account.updated' },
    { createdMs: row.createdMs + 1 },
    { actor: 'key_2' },
    { requestId: '' },
    { payload: Buffer.from('what happened!') },
  ];
  const hashes = changes.map((change) => chainHash(genesisHash, { ...row, ...change }).toString('hex'));
  const others = new Set([row.hash.toString('hex'), chainHash(row.hash, row).toString('hex'), ...hashes]);
  expect(others.size).toBe(changes.length + 2);
});

test('events are numbered from 1 without a gap, each chained to the one before, and the head follows', () => {
  const own = head();
  const { tenant } = own;
  const rows = [10, 20, 30].map((ms) => append(own, event, ms));
  expect(rows.map(({ sequence }) => sequence)).toEqual([1n, 2n, 3n]);
  expect(rows.map(({ tenant: of }) => of)).toEqual([tenant, tenant, tenant]);
  expect(new Set(rows.map(({ eventId }) => eventId)).size).toBe(3);
  expect(rows[2]).toMatchObject(event);
  for (const [place, row] of rows.entries()) expect(row.hash).toEqual(chainHash(rows[place - 1]?.hash ?? genesisHash, row));
  expect(own).toEqual({ tenant, sequence: 3n, hash: rows[2]!.hash, lastMs: 30, chart: 'wallet', rebuilt: 0n, frozen: false });
});

test('if the clock was set back, an event has the time of the one before', () => {
  const own = head();
  expect([2000, 1000, 2001].map((ms) => append(own, event, ms).createdMs)).toEqual([2000, 2000, 2001]);
  expect(own.lastMs).toBe(2001);
});
