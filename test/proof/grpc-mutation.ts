// Mutates protobuf messages: fields get hostile values.
import { ScalarType, create, type DescField, type DescMessage, type Message } from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import type { SeededRandom } from './seeded-random.ts';

const deep = `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;

/** Texts that break ledgers, parsers and databases. */
const hostileTexts = [
  ...['', ' ', '\0', 'a\0b', '\ud800', '\u202e\u2066', '\r\nlevel=50', ...[65, 256, 100_000].map((length) => 'x'.repeat(length))],
  ...['😀'.repeat(1_001), '-1', '0', '0.00', '1e5', '0x10', 'NaN', '9'.repeat(13), '9'.repeat(400), '9999999999999.99', '1.999', '١.٠'],
  ...['{}', '[]', '{"a":1,"a":2}', '{"__proto__":{"admin":true}}', '{"a":1e400}', '{"a":"\\ud800"}', '{"a":"\\u0000"}', deep],
  ...['__proto__', 'constructor', 'debit', 'credit', 'NGN', "'; drop table log; --", '%00', '../../etc/passwd', 'active', 'closed'],
  ...['tenant_', 'tenant_00000000000000000000000000', 'txn_7zzzzzzzzzzzzzzzzzzzzzzzzz', 'txn_8zzzzzzzzzzzzzzzzzzzzzzzzz'],
  ...['https://169.254.169.254/', 'http://[::ffff:127.0.0.1]:1/', 'https://user:secret@example.com:99999/'],
];

const hostileWholes = ['0', '1', '-1', '2', '99', '101', '2147483647', '-2147483648', '9007199254740992', '8640000000000001']
  .concat(String(2n ** 63n - 1n), String(-(2n ** 63n)))
  .map(BigInt);

/** Damages one to three fields of a message, in place, anywhere below it. `known`: texts that are valid somewhere, mostly ids. */
export function mutateFields(random: SeededRandom, schema: DescMessage, message: Message, known: readonly string[]): void {
  for (let times = 1 + random.whole(0, 2); times > 0; times--) damage(random, reflect(schema, message), known);
}

function damage(random: SeededRandom, message: ReflectMessage, known: readonly string[]): void {
  if (message.fields.length === 0) return;
  const field = random.pick(message.fields);
  if (random.happens(0.1)) {
    message.clear(field);
    return;
  }
  switch (field.fieldKind) {
    case 'scalar':
      message.set(field, scalar(random, field.scalar, known));
      return;
    case 'message': {
      const child = message.get(field);
      damage(random, child, known);
      message.set(field, child);
      return;
    }
    case 'list':
      damageList(random, message, field, known);
      return;
    default:
      throw new Error(`${field.toString()}: the cluster has no such fields`);
  }
}

function damageList(
  random: SeededRandom,
  message: ReflectMessage,
  field: DescField & { fieldKind: 'list' },
  known: readonly string[],
): void {
  const list = message.get(field);
  const size = list.size;
  const way = random.whole(0, 99) / 100;
  if (way < 0.2 && size > 0) {
    const copies = random.pick([1, 2, 201, 1_001]);
    for (let copy = 0; copy < copies; copy++) list.add(list.get(0));
  } else if (way < 0.3) list.clear();
  else if (field.listKind === 'message' && size > 0) damage(random, list.get(random.whole(0, size - 1)) as ReflectMessage, known);
  else if (field.listKind === 'message') list.add(reflect(field.message, create(field.message)));
  else if (field.listKind === 'scalar') {
    const value = scalar(random, field.scalar, known);
    if (size > 0 && way < 0.6) list.set(random.whole(0, size - 1), value);
    else list.add(value);
  }
}

function scalar(random: SeededRandom, type: ScalarType, known: readonly string[]): string | number | bigint | boolean | Uint8Array {
  const whole = random.pick(hostileWholes);
  switch (type) {
    case ScalarType.BOOL:
      return random.happens(0.5);
    case ScalarType.INT32:
      return Number(BigInt.asIntN(32, whole));
    case ScalarType.UINT32:
      return Number(BigInt.asUintN(32, whole));
    case ScalarType.INT64:
      return whole;
    case ScalarType.BYTES:
      return new Uint8Array(random.whole(0, 63)).map(() => random.whole(0, 255));
    case ScalarType.STRING: {
      const text = random.happens(0.5) && known.length > 0 ? random.pick(known) : random.pick(hostileTexts);
      // Protobuf cannot encode a string that is not Unicode.
      return text.toWellFormed();
    }
    default:
      throw new Error(`the cluster has no fields of type ${ScalarType[type]}`);
  }
}
