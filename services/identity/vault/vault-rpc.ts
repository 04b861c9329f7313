// The gRPC calls of the vault: check the request's fields, then seal, open, find or erase.
import type { ServiceImpl } from '@connectrpc/connect';
import type { PersonalData, SealedItem as SealedMessage, VaultService } from '../../../proto/gen/identity/v1/vault_pb.js';
import { toId } from '../../platform/ids.ts';
import { answer } from '../calls.ts';
import * as field from '../fields.ts';
import type { Parts } from '../parts.ts';
import { tenantUuid } from '../tenant-changes.ts';
import type { Personal, SealedItem } from './vault.ts';

const maxItems = 4_000;
const maxPerTransaction = 4;
const maxDataBytes = 4_096;
const maxNameLength = 255;

/** Handlers of `identity.v1.VaultService`. The database work is limited by tenant. */
export function vaultCalls({ vault, erasures, tenants }: Parts): ServiceImpl<typeof VaultService> {
  return {
    seal: answer(async (request, { signal }) => {
      const tenant = tenantUuid(request.tenantId);
      const all = request.transactions.flatMap(({ transactionId, personal }) =>
        checkedPersonal(personal).map((each) => ({ ...each, transactionId: checkedTransaction(transactionId) })),
      );
      checkCount('transactions', all.length);
      const sealed = await tenants.run(tenant, signal, () => vault.seal(tenant, all));
      return { sealed: sealed.map(({ subject, nonce, ciphertext }) => ({ subjectId: toId('subj', subject), nonce, ciphertext })) };
    }),
    open: answer(async (request, { signal }) => {
      const tenant = tenantUuid(request.tenantId);
      checkCount('sealed', request.sealed.length);
      const all = request.sealed.map(({ transactionId, item }) => ({
        ...sealedOf(item),
        transactionId: checkedTransaction(transactionId),
      }));
      return { items: await tenants.run(tenant, signal, () => vault.open(tenant, all, request.statesOnly)) };
    }),
    findSubject: answer(async (request, { signal }) => {
      const tenant = tenantUuid(request.tenantId);
      const name = subjectName('subject', request.subject);
      return { subjectId: toId('subj', await tenants.run(tenant, signal, () => vault.find(tenant, name))) };
    }),
    eraseSubject: answer(async (request, { signal }) => {
      const tenant = tenantUuid(request.tenantId);
      const name = subjectName('subject', request.subject);
      const context = {
        reason: field.optionalText('reason', request.reason, 1_000) ?? '',
        actor: field.optionalText('actor', request.actor, 255) ?? '',
        requestId: field.optionalText('request_id', request.requestId, 255) ?? '',
      };
      await erasures.checkOpen(request.tenantId);
      const erasure = await tenants.run(tenant, signal, () => vault.erase(tenant, name, context));
      await erasures.finish(erasure);
      return { subjectId: toId('subj', erasure.subject), erasedMs: BigInt(erasure.erased_ms) };
    }),
  };
}

function checkedPersonal(personal: PersonalData[]): Personal[] {
  if (personal.length > maxPerTransaction)
    throw field.invalid('personal', 'max', `must have at most ${maxPerTransaction} items`, String(personal.length));
  return personal.map(({ subject, data }, index) => {
    const path = `personal[${index}]`;
    const name = subjectName(`${path}.subject`, subject);
    if (personal.findIndex((other) => other.subject.normalize('NFC') === name) < index)
      throw field.invalid(`${path}.subject`, 'unique', 'is there already', subject);
    if (Buffer.byteLength(data) > maxDataBytes || !isJson(data))
      throw field.invalid(`${path}.data`, 'max', `must be JSON of at most ${maxDataBytes} bytes`);
    return { subject: name, data };
  });
}

/** In Unicode form NFC, so that two ways to type a name are one subject: an erasure must not leave the other one. */
function subjectName(path: string, name: string): string {
  return field.text(path, name.normalize('NFC'), maxNameLength);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function checkedTransaction(id: string): string {
  field.uuidOf('txn', id, () => field.invalid('transaction_id', 'id', 'must be a valid identifier', id.slice(0, 255)));
  return id;
}

function sealedOf(item: SealedMessage | undefined): SealedItem {
  const id = item?.subjectId ?? '';
  const subject = field.uuidOf('subj', id, () => field.invalid('subject_id', 'id', 'must be a valid identifier', id.slice(0, 255)));
  return { subject, nonce: item?.nonce ?? new Uint8Array(), ciphertext: item?.ciphertext ?? new Uint8Array() };
}

function checkCount(name: string, count: number): void {
  if (count > maxItems) throw field.invalid(name, 'max', `must have at most ${maxItems} items`, String(count));
}
