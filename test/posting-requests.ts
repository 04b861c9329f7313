// Requests to post and to reverse, read as the ledger reads them, for the tests of its wire.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { PostingSchema, ReverseTransactionRequestSchema } from '../proto/gen/ledger/v1/ledger_pb.js';
import { validateReversal } from '../services/ledger/commands.ts';
import { validatePosting, type ValidatedPosting } from '../services/ledger/mapping.ts';
import { newId } from '../services/platform/ids.ts';

/** Whose requests they are. */
export const tenantId = newId('tenant');
export const debit = { accountCode: 'CASH', amount: '10.50', side: 'debit', currency: 'NGN' };
export const credit = { ...debit, accountCode: 'SALES', side: 'credit' };
/** A request that balances. */
export const double = { tenantId, entries: [debit, credit] };

/** The order of a posting; throws what it is refused for. */
export function posted(init: MessageInitShape<typeof PostingSchema>): ValidatedPosting {
  return validatePosting(create(PostingSchema, init));
}

/** That of a reversal. */
export function reversed(init: MessageInitShape<typeof ReverseTransactionRequestSchema>): ReturnType<typeof validateReversal> {
  return validateReversal(create(ReverseTransactionRequestSchema, init));
}
