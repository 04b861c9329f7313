// The query of a list of transactions: parameters, filters by metadata, and queries that are kept under a name.
import { parse } from 'node:querystring';
import type { MessageShape } from '@bufbuild/protobuf';
import { Type, type Static } from 'typebox';
import type { ListTransactionsRequestSchema } from '../proto/gen/ledger/v1/ledger_pb.js';
import { timeOfBooks } from './as-of.ts';
import { validationError, type FieldError } from './errors.ts';
import { exportFormats, filters, idOf, object, oneOf, paging, period, subjectName, transactionKinds, whole } from './fields.ts';
import { periodOf } from './pages.ts';
import type { Services } from './services.ts';
import { queryValidator } from './validation.ts';

/** The name of a filter. */
export const filterName = Type.Unsafe<string>({
  type: 'string',
  pattern: '^[A-Za-z0-9_-]{1,64}$',
  'x-tag': 'name',
  description: '1 to 64 letters, digits, `_` and `-`.',
  example: 'deposits',
});

const listFilters = {
  ...filters,
  kind: Type.Optional(oneOf(transactionKinds, { example: 'double' })),
  hold_id: Type.Optional(idOf('hold', 'Captures of this hold.')),
  reverses: Type.Optional(idOf('txn', 'Reversals of this transaction, also of parts of it.')),
  q: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      minLength: 1,
      maxLength: 255,
      'x-empty': true,
      description:
        'Words of description and reference, at most 16; all must fit. Case and accents are folded, and a trailing `*` is a prefix.',
      example: 'refund inv-10*',
    }),
  ),
  effective_from: Type.Optional(
    timeOfBooks('Only what counts (`effective_at`) from then on: a day of the books’ time zone (its first millisecond), or RFC 3339.'),
  ),
  effective_to: Type.Optional(timeOfBooks('Only what counts until then: a day (its last millisecond), or RFC 3339.')),
  ...period,
};

// Names of metadata are the tenant's: `metadata.<key>` is checked by its handler.
const byMetadata = { patternProperties: { '^metadata\\.': {} } };

const keptQuery = Object.assign(object(listFilters), byMetadata);

const named = {
  filter: Type.Optional({
    ...filterName,
    description: 'A query that was kept under this name; parameters next to it win.',
  } as typeof filterName),
};

// Not kept under a name: the names of subjects are encrypted.
const bySubject = { subject: Type.Optional({ ...subjectName, 'x-empty': true } as typeof subjectName) };

/** The query of the list. */
export const listQuery = Object.assign(object({ ...listFilters, ...bySubject, ...named, ...paging }), byMetadata);

const exportFields = {
  format: Type.Optional(oneOf(exportFormats, { default: 'ndjson', example: 'csv' })),
  after_sequence: Type.Optional(
    whole(0, Number.MAX_SAFE_INTEGER, { default: 0, description: 'Only records after this sequence.', example: 30 }),
  ),
};

/** The query of their export, which has no pages. */
export const exportQuery = Object.assign(object({ ...listFilters, ...named, ...exportFields }), byMetadata);

type Query = Static<typeof keptQuery>;

type ListRequest = Omit<MessageShape<typeof ListTransactionsRequestSchema>, '$typeName' | 'tenantId' | 'limit' | 'cursor' | 'metadata'>;

/** The filters of a query as the ledger takes them. Throws `validation_failed` naming the field. */
export async function listRequest(
  times: Services['times'],
  tenantId: string,
  query: Query,
): Promise<Partial<ListRequest> & { metadata: { key: string; values: string[] }[] }> {
  const { effective_from: from, effective_to: to } = query;
  return {
    effectiveFromMs: await times.instant(tenantId, 'effective_from', from, 'first'),
    effectiveToMs: await times.instant(tenantId, 'effective_to', to, 'last'),
    accountCode: query.account_code,
    currency: query.currency,
    reference: query.reference,
    idempotencyKey: query.idempotency_key,
    kind: query.kind,
    holdId: query.hold_id,
    reverses: query.reverses,
    words: query.q,
    metadata: metadataOf(query),
    ...periodOf(query),
  };
}

function metadataOf(query: object): { key: string; values: string[] }[] {
  return Object.entries(query).flatMap(([name, value]: [string, string | string[]]) =>
    name.startsWith('metadata.') ? [{ key: name.slice('metadata.'.length), values: [value].flat() }] : [],
  );
}

const validateKept = queryValidator(keptQuery);

/** Reads a kept query. Throws `validation_failed`, naming what of `query` is wrong. */
export function readKept(text: string): Query {
  const verdict = validateKept(parse(text, '&', '=', { maxKeys: 100 }));
  if (verdict === true) throw new Error('a validator of queries that answers no value');
  if (!('error' in verdict)) return verdict.value as Query;
  const errors = (verdict.error.errors ?? []).map((each) => ({ ...each, field: `query.${each.field}`, message: `query: ${each.message}` }));
  throw validationError(errors as [FieldError, ...FieldError[]]);
}

/** A query with what is kept under its `filter`; its own parameters win. `find` throws `filter_not_found`. */
export async function withKept<Own extends Query & { filter?: string }>(query: Own, find: (name: string) => Promise<string>): Promise<Own> {
  const { filter, ...own } = query;
  if (filter === undefined) return query;
  const kept = readKept(await find(filter));
  return { ...kept, ...own } as Own;
}
