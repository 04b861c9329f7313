// What a client of the proof of faults excuses.
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Cluster, Tenant } from '../cluster.ts';
import { Clients } from './clients.ts';

test.each([
  [502, [expect.stringMatching(/^posting client-0-0, attempt 1, was answered 502 /)]],
  [503, []],
])('a posting that is answered %i is sent again, and noted where no fault excuses that', async (status, wrong) => {
  let posted = 0;
  const rest = async (method: string): Promise<Answer> => {
    await pause(1);
    if (method === 'POST' && posted++ === 0) return { status, headers: new Headers(), body: {} };
    return { status: method === 'POST' ? 201 : 200, headers: new Headers(), body: { data: { transaction: { transaction_id: 'txn_1' } } } };
  };
  const tenant: Tenant = { id: 'tenant_1', slug: 'one', owner: { email: '', password: '', token: '', id: '' } };
  const clients = new Clients({ rest } as unknown as Cluster, [{ tenant, key: '' }], 1, 1, 40);
  while (posted < 2) await pause(5);
  await clients.end();
  expect(clients.wrong).toEqual(wrong);
});
