import type pg from 'pg';
import { newTenant, newUser, password, refusal, useIdentity, type IdentityClient } from '../../test/identity.ts';
import { enable, newFactorUser } from '../../test/second-factor.ts';
import type { User } from '../../proto/gen/identity/v1/identity_pb.js';
import { toUuid } from '../platform/ids.ts';

let client: IdentityClient;
let admin: pg.Client;

useIdentity((own) => ({ client, admin } = own));

const uuid = (user: User) => toUuid('user', user.id)!;

const turnOff = ({ id: userId }: User, code: string) => client.deleteTotp({ userId, password, code });

test('a second factor is required by an owner that has one, and shuts out members without, with their access keys', async () => {
  const owner = await newUser(client);
  const member = await newUser(client);
  const tenantId = await newTenant(client, owner.id);
  await admin.query('insert into memberships values ($1, $2, $3, now())', [toUuid('tenant', tenantId), uuid(member), 'admin']);
  const require = (userId: string, requireTotp = true) => client.updateTenant({ userId, tenantId, requireTotp });
  expect(await refusal(require(owner.id))).toMatchObject({ reason: 'forbidden', message: expect.stringContaining('second factor') });
  await enable(client, owner);
  expect(await refusal(require(member.id))).toMatchObject({ reason: 'forbidden' });
  expect(await refusal(require((await newFactorUser(client)).user.id))).toMatchObject({ reason: 'tenant_not_found' });

  const [ofOwner, ofMember] = [
    await client.createAccess({ userId: owner.id, tenantId }),
    await client.createAccess({ userId: member.id, tenantId }),
  ];
  const { key: apiKey } = await client.createApiKey({ userId: member.id, tenantId, name: 'till', scopes: ['accounts:read'] });
  const answers = [await require(owner.id), await require(owner.id)];
  for (const { tenant } of answers) expect(tenant).toMatchObject({ id: tenantId, requireTotp: true, role: 'owner' });
  const isValid = async (key: string) => (await client.verifyApiKey({ key })).verified !== undefined;
  expect([await isValid(ofOwner.key), await isValid(ofMember.key), await isValid(apiKey)]).toEqual([true, false, true]);

  const calls = [
    () => client.verifyTenantMember({ userId: member.id, tenantId }),
    () => client.createAccess({ userId: member.id, tenantId }),
    () => client.listApiKeys({ userId: member.id, tenantId }),
    () => client.createApiKey({ userId: member.id, tenantId, name: 'till', scopes: ['accounts:read'] }),
  ];
  for (const call of calls)
    expect(await refusal(call())).toMatchObject({ reason: 'forbidden', message: expect.stringContaining('second factor') });
  await enable(client, member);
  for (const call of calls) await call();
  await require(owner.id, false);

  const { rows } = await admin.query(
    `select actor, data from tenant_audit where tenant_id = $1 and type = 'tenant.updated' order by sequence`,
    [toUuid('tenant', tenantId)],
  );
  expect(rows).toEqual([
    { actor: owner.id, data: '{"require_totp":true}' },
    { actor: owner.id, data: '{"require_totp":false}' },
  ]);
});

test('turning it off ends the user’s access keys in tenants that require a second factor, and in no others', async () => {
  const { user, recoveryCodes } = await newFactorUser(client);
  const [strict, lax] = [await newTenant(client, user.id), await newTenant(client, user.id)];
  await client.updateTenant({ userId: user.id, tenantId: strict, requireTotp: true });
  const keys = [
    await client.createAccess({ userId: user.id, tenantId: strict }),
    await client.createAccess({ userId: user.id, tenantId: lax }),
  ];
  await turnOff(user, recoveryCodes[0]!);
  const verified = await Promise.all(keys.map(async ({ key }) => (await client.verifyApiKey({ key })).verified?.tenantId));
  expect(verified).toEqual([undefined, lax]);
  expect(await refusal(client.createAccess({ userId: user.id, tenantId: strict }))).toMatchObject({ reason: 'forbidden' });
});

test('turning it off at once with the requirement leaves no access key of a member without', async () => {
  const owner = await newFactorUser(client);
  for (let time = 0; time < 5; time += 1) {
    const member = await newFactorUser(client);
    const tenantId = await newTenant(client, owner.user.id);
    await admin.query('insert into memberships values ($1, $2, $3, now())', [toUuid('tenant', tenantId), uuid(member.user), 'viewer']);
    const access = () => client.createAccess({ userId: member.user.id, tenantId }).catch(() => undefined);
    const before = await access();
    const [, , meanwhile] = await Promise.all([
      turnOff(member.user, member.recoveryCodes[0]!),
      client.updateTenant({ userId: owner.user.id, tenantId, requireTotp: true }),
      access(),
    ]);
    for (const made of [before, meanwhile]) if (made) expect((await client.verifyApiKey({ key: made.key })).verified).toBeUndefined();
  }
});
