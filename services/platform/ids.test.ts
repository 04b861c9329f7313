import { newId, newUuid, tenantId, tenantUuid, toId, toUuid, uuidAt } from './ids.ts';

test.each([
  ['of another prefix', newId('acc')],
  ['in upper case', newId('txn').toUpperCase()],
  ['too short', newId('txn').slice(0, -1)],
  ['with a letter that Crockford leaves out', newId('txn').replace(/.$/, 'u')],
  ['of more than 128 bits', `txn_8${newId('txn').slice(5)}`],
  ['without a suffix', 'txn_'],
  ['too long', `${newId('txn')}q`],
  ['with another separator', newId('txn').replace('_', '-')],
])('a text %s is no identifier of a transaction', (_, id) => {
  expect(toUuid('txn', id)).toBeNull();
});

test.each([
  ['of a UUID without a version', 'txn_01jd1zq5v806n9w2k4m7p3r5t8'],
  ['of version 15', 'txn_01jd1zq5v8z6n9w2k4m7p3r5t8'],
  ['of a UUID without a variant', 'txn_01jd1zq5v8e6n0w2k4m7p3r5t8'],
  ['of the least bits', 'txn_00000000000000000000000000'],
  ['of the most bits', 'txn_7zzzzzzzzzzzzzzzzzzzzzzzzz'],
])('a text %s is a well-formed identifier', (_, id) => {
  expect(toId('txn', toUuid('txn', id) ?? '')).toBe(id);
});

test('new identifiers are of version 7, all different and ordered by the millisecond', () => {
  const begin = Date.now();
  const made = Array.from({ length: 2000 }, () => newUuid());
  const end = Date.now();
  expect(new Set(made).size).toBe(made.length);
  // The part that is drawn, without version and variant.
  expect(new Set(made.map((uuid) => uuid.slice(24))).size).toBe(made.length);
  const times = made.map((uuid) => Number.parseInt(uuid.replace('-', '').slice(0, 12), 16));
  expect(times).toEqual(times.toSorted((one, other) => one - other));
  expect(times[0]).toBeGreaterThanOrEqual(begin);
  expect(times.at(-1)).toBeLessThanOrEqual(end);
  for (const uuid of made) expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('identifiers of one millisecond are in order and reveal no count', () => {
  const ms = 1_790_000_000_000;
  const made = Array.from({ length: 100 }, () => uuidAt(ms));
  expect(made).toEqual(made.toSorted());
  expect(new Set(made).size).toBe(made.length);
  for (const uuid of made) expect(uuid).toMatch(/^01a0c450-6c00-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  // Without the time.
  const parts = Array.from({ length: 100 }, (_, later) => uuidAt(ms + 1 + later).slice(14));
  expect(parts).not.toEqual(parts.toSorted());
});

test('the identifier of a UUID is that of the TypeID specification', () => {
  expect(toId('user', '01890a5d-ac96-774b-bcce-b302099a8057')).toBe('user_01h455vb4pex5vsknk084sn02q');
  expect(toUuid('user', 'user_01h455vb4pex5vsknk084sn02q')).toBe('01890a5d-ac96-774b-bcce-b302099a8057');
});

test('the suffix of an identifier is the number that its UUID is, in digits of five bits', () => {
  const letters = '0123456789abcdefghjkmnpqrstvwxyz';
  const uuids = ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', ...Array.from({ length: 200 }, newUuid)];
  for (let bit = 0n; bit < 128n; bit++) {
    const figures = (1n << bit).toString(16).padStart(32, '0');
    uuids.push(figures.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'));
  }
  for (const uuid of uuids) {
    const digits = [
      ...BigInt(`0x${uuid.replaceAll('-', '')}`)
        .toString(32)
        .padStart(26, '0'),
    ];
    const id = `acc_${digits.map((digit) => letters[Number.parseInt(digit, 32)]).join('')}`;
    expect(toId('acc', uuid)).toBe(id);
    expect(toUuid('acc', id)).toBe(uuid);
  }
});

test('a tenant’s identifier and UUID are the same each time', () => {
  const tenants = Array.from({ length: 50 }, () => newUuid());
  const ids = tenants.map(tenantId);
  expect(ids).toEqual(tenants.map((uuid) => toId('tenant', uuid)));
  for (let again = 0; again < 2; again += 1) {
    expect(ids.map(tenantUuid)).toEqual(tenants);
    expect(tenants.map(tenantId)).toEqual(ids);
  }
  expect([tenantUuid(''), tenantUuid(newId('user'))]).toEqual([null, null]);
});
