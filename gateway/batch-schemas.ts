// Schemas of batches and imports for the OpenAPI document: items as the bodies of their routes, and what became of each.
import { operations, ops } from './batch-items.ts';
import { errorCodes } from './errors.ts';
import { idempotencyKey } from './fields.ts';
import { id, integer, list, record, ref, string, word, type Schema } from './records.ts';

const nameOf = (op: string): string => `Batch${op[0]?.toUpperCase()}${op.slice(1)}`;

// The header can't be the key of several.
const itemKey = {
  ...idempotencyKey,
  description: 'Printable characters without a blank at either end. Kept for ever: the same item is done once.',
};

const itemSchemas = Object.fromEntries(
  ops.map((op) => {
    const { body, pathField } = operations[op];
    const { required = [], properties } = body as { required?: string[]; properties: Schema };
    const path = pathField === undefined ? {} : { [pathField]: id(pathField === 'hold_id' ? 'hold' : 'txn') };
    const key = op === 'void' ? {} : { idempotency_key: itemKey };
    return [
      nameOf(op),
      {
        type: 'object',
        additionalProperties: false,
        required: ['op', ...Object.keys({ ...path, ...key }), ...required],
        properties: { op: word([op]), ...path, ...properties, ...key },
      },
    ];
  }),
);

/** An item of any operation. */
export const anyItem = {
  oneOf: ops.map((op) => ref(nameOf(op))),
  discriminator: { propertyName: 'op', mapping: Object.fromEntries(ops.map((op) => [op, ref(nameOf(op)).$ref])) },
};

/** `data` of a batch's answer. */
export const batchRecord = record({
  results: { ...list(ref('BatchItemResult')), description: 'One for each item, in their order.' },
  posted: { ...integer, description: 'Items done now, also holds and voids.' },
  replayed: { ...integer, description: 'Items that an earlier request had done.' },
  failed: integer,
});

/** The schemas by name. */
export const batchSchemas: Record<string, Schema> = {
  ...itemSchemas,
  BatchItemResult: {
    type: 'object',
    required: ['status', 'replayed'],
    description: 'What the item’s route alone would have answered: `data`, or `error` and `code`.',
    properties: {
      status: integer,
      replayed: { type: 'boolean', description: 'true: an earlier request had done it.' },
      data: {
        type: 'object',
        properties: {
          transaction: { anyOf: [ref('Transaction'), ref('TriedTransaction')] },
          hold: { anyOf: [ref('Hold'), ref('TriedHold')] },
        },
      },
      error: string,
      code: word(errorCodes),
      details: { ...ref('ProblemDetails'), description: 'The first wrong field, below the item.' },
      errors: { ...list(ref('FieldError')), description: 'All wrong fields, at most 20.' },
    },
  },
};
