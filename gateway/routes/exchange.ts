// Exchange of one currency for another.
import { exchangeBody } from '../command-bodies.ts';
import { toPosting } from '../commands.ts';
import { takeKeyHeader } from '../idempotency.ts';
import { dryRunQuery, exchangeOf } from '../payment-fields.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { accountErrors, answers, exampleTransaction, idempotencyDoc, postAndSend, postingErrors, timeErrors } from './postings.ts';

const exampleExchange = {
  idempotency_key: 'exchange-7',
  description: 'USD to NGN',
  debit: { account_code: 'CUSTOMER-WALLETS-USD', currency: 'USD', amount: '10.00' },
  credit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
  rate: { base: 'USD', quote: 'NGN', value: '1525.5' },
};

const account_id = 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8';
const exampleEntries = [
  {
    account_id,
    account_code: 'CUSTOMER-WALLETS-USD',
    amount: '10.00',
    side: 'debit',
    currency: 'USD',
    balance_after: '490.00',
    counter: false,
  },
  {
    account_id,
    account_code: 'FX-POSITION-USD',
    amount: '10.00',
    side: 'credit',
    currency: 'USD',
    balance_after: '10.00',
    counter: false,
  },
  {
    account_id,
    account_code: 'FX-POSITION-NGN',
    amount: '15255.00',
    side: 'debit',
    currency: 'NGN',
    balance_after: '-15255.00',
    counter: false,
  },
  {
    account_id,
    account_code: 'CUSTOMER-WALLETS-NGN',
    amount: '15255.00',
    side: 'credit',
    currency: 'NGN',
    balance_after: '15255.00',
    counter: false,
  },
];

/** `POST /transactions/exchange`. */
export function exchangeRoutes(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions/exchange',
    {
      schema: { body: exchangeBody, querystring: dryRunQuery },
      preValidation: takeKeyHeader,
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        doc: {
          id: 'postExchange',
          tag: 'Transactions',
          summary: 'Exchange one currency for another',
          description: `Each currency is balanced by its FX position, which is created on first use. Give one amount and a rate, or both amounts. The entries are: debit leg, its fees, its FX position, the other FX position, credit leg, its fees, spread. A quote needs no record: its id is the key, its price the body, its end \`valid_until\`. ${idempotencyDoc('body, however amounts and metadata are written', 'a second call exchanges a second time: after a lost answer, check first whether it has posted.')}`,
          idempotent: true,
          bodies: { dollars: exampleExchange },
          answers: answers({
            ...exampleTransaction,
            kind: 'exchange',
            idempotency_key: 'exchange-7',
            description: 'USD to NGN',
            reference: null,
            currency: null,
            amount: null,
            entries: exampleEntries,
            metadata: {},
            origin: {
              ...{ hold_id: null, template: null, schedule_id: null, occurrence: null },
              exchange: {
                rate: exampleExchange.rate,
                reference_rate: null,
                rounding: 'half_even',
                converted_debit: '10.00',
                converted_credit: '15255.00',
                spread: '0.00',
                residue: '0.000000000000',
              },
              override: null,
            },
          }),
          errors: [...postingErrors, ...timeErrors, 'future_dated'],
          errorFields: accountErrors('debit.account_code', 'credit.account_code', 'fees[0].account_code', 'spread.account_code'),
        },
      },
    },
    async (request, reply) => {
      const timeZone = await services.times.zoneFor(request.caller.tenantId, request.body.effective_at);
      const posting = toPosting(request, request.body, [], { dryRun: request.query.dry_run === true, timeZone });
      posting.exchange = exchangeOf(request.body);
      return postAndSend(services, request, reply, posting);
    },
  );
}
