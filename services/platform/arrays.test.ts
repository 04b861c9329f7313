import pg from 'pg';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { bigintArray, bytesArray, doubleArray, plainArray, textArray, uuidArray } from './arrays.ts';

let database: FreshDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await freshDatabase('ledger');
  client = new pg.Client(database.adminUrl);
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await database.drop();
});

const received = async (type: string, array: unknown) =>
  (await client.query(`select $1::${type}[]::text[] as received`, [array])).rows[0].received;

test.each([[[]], [[null]], [['']], [['plain', '', null, 'NULL', '{a,"b"}\\']], [[null, 'größer', '€', '', '\u{1f4b6}', null]]])(
  'an array of text arrives as it is: %j',
  async (values) => expect(await received('text', textArray(values))).toEqual(values),
);

test('UUIDs, whole numbers, fractions, bytes and words arrive as they are, and so do empty arrays of each', async () => {
  const uuid = '01890a5d-ac96-774b-bcce-b302099a8057';
  expect(await received('uuid', uuidArray([uuid, null, uuid]))).toEqual([uuid, null, uuid]);
  expect(await received('bigint', bigintArray([-(2n ** 63n), 0n, 2n ** 63n - 1n]))).toEqual([
    '-9223372036854775808',
    '0',
    '9223372036854775807',
  ]);
  expect(await received('float8', doubleArray([1_700_000_000_000, 0.5]))).toEqual(['1700000000000', '0.5']);
  expect(await received('bytea', bytesArray([Buffer.from([0, 255]), null, Buffer.alloc(0)]))).toEqual(['\\x00ff', null, '\\x']);
  expect(await received('numeric', plainArray([1n, -2n, null]))).toEqual(['1', '-2', null]);
  for (const [type, make] of Object.entries({
    uuid: uuidArray,
    bigint: bigintArray,
    float8: doubleArray,
    bytea: bytesArray,
    int: plainArray,
  })) {
    expect(await received(type, make([]))).toEqual([]);
  }
});
