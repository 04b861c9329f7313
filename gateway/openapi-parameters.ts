// Documents the parameters of paths and headers.
import { accountCode, idempotencyKey, slug } from './fields.ts';
import { published } from './openapi.ts';
import type { Doc } from './openapi-route.ts';
import { filterName } from './transaction-query.ts';

/** Parameters of paths by name. */
export const pathParameters: Record<string, Record<string, unknown>> = {
  slug: { ...slug, description: 'Slug of the tenant.' },
  tenant_id: { type: 'string', description: 'Id of the tenant.', example: 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  key_id: { type: 'string', description: 'Id of the API key.', example: 'key_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  transaction_id: { type: 'string', description: 'Id of the transaction.', example: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  hold_id: { type: 'string', description: 'Id of the hold.', example: 'hold_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  user_id: { type: 'string', description: 'Id of the user.', example: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  invitation_id: { type: 'string', description: 'Id of the invitation.', example: 'inv_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  account_code: { ...accountCode, description: 'Code of the account.' },
  name: { ...filterName, description: 'Name of the filter.' },
  limit_id: { type: 'string', description: 'Id of the limit.', example: 'limit_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  job_id: { type: 'string', description: 'Id of the job.', example: 'job_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  provider: { type: 'string', description: 'Name of an identity provider in `OIDC_PROVIDERS`.', example: 'google' },
  sequence: { type: 'integer', format: 'int64', minimum: 1, description: 'Sequence of the event.', example: 3 },
  level: { type: 'integer', minimum: 0, maximum: 63, description: 'Level of the tile; 0 has the leaves.', example: 0 },
  tile: {
    type: 'string',
    description:
      'Position of the tile in its level, three digits a group (`067`, `x001/x234/067`), and `.p/<width>` where it has less than 256 hashes.',
    example: '000.p/3',
  },
  delivery_id: { type: 'string', description: 'Id of the delivery.', example: 'wh_delivery_01jd1zq5v8e6n9w2k4m7p3r5t8' },
};

/**
 * A parameter whose example the reference page shows but does not send (`x-disabled`): a list would start at the example's cursor. The page
 * pairs examples by name with those of the body, so there is one for each.
 */
export function parameterDoc({ example, ...parameter }: Record<string, unknown>, { bodies = { example: {} } }: Doc): object {
  const { default: usual } = parameter['schema'] as { default?: unknown };
  const shown = example ?? usual;
  if (shown === undefined) return parameter;
  if (parameter['required'] === true) return { ...parameter, example: shown };
  const valueWith = (body: unknown): unknown => (typeof shown === 'function' ? (shown as (body: unknown) => unknown)(body) : shown);
  const examples = Object.entries(bodies).map(([name, body]) => [name, { value: valueWith(body), 'x-disabled': true }]);
  return { ...parameter, examples: Object.fromEntries(examples) as object };
}

/** The header parameters of a route. */
export function headerParameters(doc: Doc): object[] {
  const requestId = {
    in: 'header',
    name: 'X-Request-Id',
    // No pattern: another value is replaced, not rejected.
    description: 'Returned in the answer and kept in the audit trail if it has 1 to 128 characters of `A-Za-z0-9._-`; otherwise replaced.',
    schema: { type: 'string' },
    example: 'req-7f3a',
  };
  const key = {
    in: 'header',
    name: 'Idempotency-Key',
    description: 'The same as `idempotency_key` of the body, bare or in double quotes. If both are given they must be equal.',
    schema: published({ ...idempotencyKey, description: undefined, example: undefined }),
    // A key that differs from the body's would be rejected.
    example: (body: { idempotency_key?: string }) => body.idempotency_key ?? `${doc.id}-1`,
  };
  const traceparent = {
    in: 'header',
    name: 'traceparent',
    description: 'W3C trace context. Events of the request carry it to Kafka and to the webhook. An invalid one is ignored.',
    schema: { type: 'string' },
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  };
  return (doc.idempotent === true ? [requestId, traceparent, key] : [requestId, traceparent]).map((each) => parameterDoc(each, doc));
}
