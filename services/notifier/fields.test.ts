import { newId, toUuid } from '../platform/ids.ts';
import { Targets } from './addresses.ts';
import { deliveryOf, eventsOf, filterOf, integer, secretOf, targetOf, tenantOf, timeOf } from './fields.ts';
import { Refusal } from './refusal.ts';

/** What a field is refused for. */
async function refused(call: () => unknown): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.reason).toBe('validation_failed');
    return { ...error.details, message: error.message };
  }
}
const because = (field: string, tag: string, predicate: string, value = '') => ({ field, tag, value, message: `${field} ${predicate}` });

test('a tenant is named by its id', async () => {
  const id = newId('tenant');
  expect(tenantOf(id)).toBe(toUuid('tenant', id));
  expect(await refused(() => tenantOf(''))).toEqual(because('tenant_id', 'required', 'is required'));
  expect(await refused(() => tenantOf('acme'))).toEqual(because('tenant_id', 'id', 'is not a tenant’s id', 'acme'));
});

test('a delivery is named by its id, and a malformed one is refused in the words of the specification', () => {
  const id = newId('wh_delivery');
  expect(deliveryOf(id)).toBe(toUuid('wh_delivery', id));
  expect(() => deliveryOf(newId('evt'))).toThrow(
    expect.objectContaining({ reason: 'invalid_delivery_id', message: 'Invalid delivery ID' }),
  );
});

test('a target is one that may be dialled, as it was sent', async () => {
  const targets = new Targets(false, (name) => Promise.resolve([name.startsWith('inside') ? '10.0.0.1' : '93.184.215.14']));
  const url = 'https://Hooks.example:443/a?b';
  expect(await targetOf(targets, url)).toBe(url);
  expect(await refused(() => targetOf(targets, ''))).toEqual(because('url', 'required', 'is required'));
  const long = `https://hooks.example/${'y'.repeat(2027)}`;
  for (const [bad, tag, predicate] of [
    ['http://hooks.example/', 'https', 'must be an https address'],
    [long, 'max', 'is longer than 2048 characters'],
    ['hooks.example', 'url', 'is not an address that can be delivered to'],
    ['https://inside.example/', 'url', 'resolves to an address that is not public'],
    ['https://127.0.0.1/', 'url', 'resolves to an address that is not public'],
  ] as const) {
    expect(await refused(() => targetOf(targets, bad))).toEqual(because('url', tag, predicate, bad.slice(0, 255)));
  }
  const withPassword = await refused(() => targetOf(targets, 'https://user:password@hooks.example/'));
  expect(withPassword).toEqual(because('url', 'url', 'must not contain a user or password: credentials go into headers'));
});

const every =
  'transaction.posted, balance.updated, account.created, account.updated, hold.created, hold.captured, hold.voided, hold.expired, definition.changed, books.updated, period.closed, period.reopened, subject.erased, transaction.redacted, log.imported, books.unfrozen, test.webhook';

test('event types are known ones, each once, in the order in which they were sent', async () => {
  expect(eventsOf(['account.created', 'test.webhook', 'account.created'])).toEqual(['account.created', 'test.webhook']);
  expect(await refused(() => eventsOf([]))).toEqual(because('events', 'min', 'needs at least one event type'));
  expect(await refused(() => eventsOf(['account.created', 'x']))).toEqual(because('events[1]', 'oneof', `must be one of ${every}`, 'x'));
});

test('a secret has 16 to 255 characters that print, and is repeated nowhere', async () => {
  for (const good of ['x'.repeat(16), 'x'.repeat(255), '👩'.repeat(16), '👩'.repeat(255), 'with blanks in it'])
    expect(secretOf(good)).toBe(good);
  for (const [bad, tag, predicate] of [
    ['x'.repeat(15), 'min', 'is shorter than 16 characters'],
    ['👩'.repeat(15), 'min', 'is shorter than 16 characters'],
    ['x'.repeat(256), 'max', 'is longer than 255 characters'],
    [`${'x'.repeat(20)}\n`, 'printable', 'must consist of printable characters'],
    [`${'x'.repeat(20)}\ud800`, 'printable', 'must consist of printable characters'],
    [`\u00ad${'x'.repeat(20)}`, 'printable', 'must consist of printable characters'],
  ] as const) {
    expect(await refused(() => secretOf(bad))).toEqual(because('secret', tag, predicate));
  }
});

test('a filter is one word or, where none was sent, all', async () => {
  expect(filterOf('status', undefined)).toEqual(['pending', 'delivered', 'failed']);
  expect(filterOf('event_type', undefined).join(', ')).toBe(every);
  expect(filterOf('status', 'failed')).toEqual(['failed']);
  expect(filterOf('event_type', 'test.webhook')).toEqual(['test.webhook']);
  expect(await refused(() => filterOf('status', 'test.webhook'))).toEqual(
    because('status', 'oneof', 'must be one of pending, delivered, failed', 'test.webhook'),
  );
  expect(await refused(() => filterOf('event_type', 'failed'))).toEqual(
    because('event_type', 'oneof', `must be one of ${every}`, 'failed'),
  );
});

test('a whole number lies within its bounds, which belong to it', async () => {
  expect([integer('limit', 1, 1, 3), integer('limit', 3, 1, 3)]).toEqual([1, 3]);
  expect(await refused(() => integer('limit', 0, 1, 3))).toEqual(because('limit', 'min', 'is below 1', '0'));
  expect(await refused(() => integer('limit', 4, 1, 3))).toEqual(because('limit', 'max', 'is above 3', '4'));
});

test('a time lies in the years 1 to 9999, or was not sent', async () => {
  const [first, last] = [BigInt(Date.parse('0001-01-01T00:00:00.000Z')), BigInt(Date.parse('9999-12-31T23:59:59.999Z'))];
  expect(timeOf('start_ms', undefined)).toBeNull();
  expect([timeOf('start_ms', 0n), timeOf('start_ms', first), timeOf('start_ms', last)]).toEqual([0, Number(first), Number(last)]);
  for (const bad of [first - 1n, last + 1n]) {
    expect(await refused(() => timeOf('start_ms', bad))).toEqual(because('start_ms', 'datetime', 'is not a time', String(bad)));
  }
});
