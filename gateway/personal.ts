// Personal data of postings: checked, sealed before it leaves the gateway, and opened for callers with the scope.
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Command, Posting, Transaction } from '../proto/gen/ledger/v1/ledger_pb.js';
import { quote, sealedRecord } from '../services/platform/ledger-records.ts';
import { validationError } from './errors.ts';
import { object, optional, subjectName } from './fields.ts';
import { metadataText } from './metadata.ts';
import { callOptions } from './request-context.ts';
import type { Services } from './services.ts';

const maxItems = 4;
const maxDataBytes = 4_096;

interface SentPersonal {
  subject: string;
  data: Record<string, unknown>;
}

/** `personal` of a posting. */
export const personalField = optional(
  Type.Unsafe<SentPersonal[]>({
    type: 'array',
    maxItems,
    items: object({
      subject: subjectName,
      data: Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        'x-metadata': maxDataBytes,
        description: 'At most 4 KiB as JSON.',
        example: { name: 'Ada Lovelace', iban: 'DE02120300000000202051' },
      }),
    }),
    description:
      'Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.',
  }),
);

/** A posting whose personal data is not sealed yet. */
export interface UnsealedPosting extends Posting {
  unsealed?: { subject: string; data: string }[];
}

/** Adds personal data to a posting. Throws `validation_failed` where a subject is there twice, or its data is too large. */
export function addPersonal(posting: UnsealedPosting, sent: SentPersonal[] | null | undefined): void {
  if (sent == null || sent.length === 0) return;
  // As identity keeps them.
  const names = sent.map(({ subject }) => subject.normalize('NFC'));
  posting.unsealed = sent.map(({ data }, index) => {
    const path = `personal[${index}]`;
    const subject = names[index] as string;
    if (names.indexOf(subject) < index) {
      const field = `${path}.subject`;
      throw validationError([{ field, tag: 'unique', value: subject, message: `${field} is there already` }]);
    }
    return { subject, data: metadataText(data, `${path}.data`, maxDataBytes) };
  });
}

/** Seals the personal data of postings, if they have any. Throws a ConnectError. */
export async function seal({ vault }: Services, request: FastifyRequest, postings: readonly UnsealedPosting[]): Promise<void> {
  const open = postings.filter(({ unsealed }) => unsealed !== undefined);
  if (open.length === 0) return;
  const transactions = open.map(({ transactionId, unsealed = [] }) => ({ transactionId, personal: unsealed }));
  const { sealed } = await vault.seal({ tenantId: request.caller.tenantId, transactions }, callOptions(request, 5_000));
  let next = 0;
  for (const posting of open) {
    const items = sealed.slice(next, (next += posting.unsealed?.length ?? 0));
    posting.personal = items.map(({ subjectId, nonce, ciphertext }) => {
      return { $typeName: 'ledger.v1.SealedData' as const, subjectId, nonce, ciphertext };
    });
    delete posting.unsealed;
  }
}

/** The postings among commands. */
export const postingsOf = (commands: readonly Command[]): UnsealedPosting[] =>
  commands.flatMap(({ command }) => (command.case === 'posting' ? [command.value] : []));

/** `personal` as JSON, by transaction. */
export type OpenedPersonal = ReadonlyMap<Transaction, string>;

const nothing: OpenedPersonal = new Map();

/** Opens the personal data of transactions for the caller of a request; without `personal:read` it learns states only. Throws a ConnectError. */
export async function openPersonal(
  { vault }: Services,
  request: FastifyRequest,
  transactions: readonly (Transaction | undefined)[],
): Promise<OpenedPersonal> {
  const found = transactions.filter((each): each is Transaction => each !== undefined && each.personal.length > 0);
  if (found.length === 0) return nothing;
  const { tenantId, scopes } = request.caller;
  const sealed = found.flatMap(({ transactionId, personal }) =>
    personal.map(({ subjectId, nonce, ciphertext }) => ({ transactionId, item: { subjectId, nonce, ciphertext } })),
  );
  const statesOnly = !scopes.has('personal:read');
  const { items } = await vault.open({ tenantId, sealed, statesOnly }, callOptions(request, 5_000));
  const answers = items.values();
  return new Map(
    found.map((transaction) => {
      const records = transaction.personal.map(({ subjectId }) => {
        const { state, personal } = answers.next().value ?? { state: 'sealed' };
        if (!personal) return JSON.stringify({ ...sealedRecord(subjectId), state });
        return `{"subject_id":"${subjectId}","subject":${quote(personal.subject)},"data":${personal.data},"state":"open"}`;
      });
      return [transaction, `[${records.join()}]`];
    }),
  );
}
