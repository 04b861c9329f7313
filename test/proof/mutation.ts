// Mutates protobuf messages by a seed: fields get values that nobody should send, then the bytes themselves are damaged.
import { ScalarType, create, toBinary, type DescField, type DescMessage, type Message } from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';

/** Numbers from 0 up to 1, the same ones for the same seed. */
export type Dice = () => number;

/** Mulberry32: small, fast, and good enough to choose by. */
export function newDice(seed: number): Dice {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One of these; throws where there is none. */
function pick<T>(dice: Dice, from: readonly T[]): T {
  if (from.length === 0) throw new Error('nothing to pick from');
  return from[Math.floor(dice() * from.length)] as T;
}

const deep = `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;

/** Texts that have broken ledgers, parsers and databases. */
const hostileTexts = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  '\u202e\u2066',
  '\r\nlevel=50',
  'x'.repeat(65),
  'x'.repeat(256),
  '😀'.repeat(1_001),
  'x'.repeat(100_000),
  '-1',
  '0',
  '0.00',
  '1e5',
  '0x10',
  'NaN',
  'Infinity',
  '9'.repeat(13),
  '9'.repeat(400),
  '9999999999999.99',
  '1.999',
  '١.٠',
  '{}',
  '[]',
  'null',
  '{"a":1,"a":2}',
  '{"__proto__":{"admin":true}}',
  '{"constructor":{"prototype":{}}}',
  '{"a":1e400}',
  '{"a":12345678901234567890}',
  '{"a":"\\ud800"}',
  '{"a":"\\u0000"}',
  deep,
  '__proto__',
  'constructor',
  'debit',
  'credit',
  'NGN',
  'ngn',
  "'; drop table log; --",
  '%00',
  '../../etc/passwd',
  'tenant_',
  'tenant_00000000000000000000000000',
  'txn_7zzzzzzzzzzzzzzzzzzzzzzzzz',
  'txn_8zzzzzzzzzzzzzzzzzzzzzzzzz',
  'https://169.254.169.254/',
  'http://[::ffff:127.0.0.1]:1/',
  'https://user:secret@example.com:99999/',
  'active',
  'closed',
];

const hostileWholes = [
  0n,
  1n,
  -1n,
  2n,
  99n,
  101n,
  2n ** 31n - 1n,
  -(2n ** 31n),
  2n ** 53n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  8_640_000_000_000_001n,
];

/** Damages one to three fields of a message, in place, anywhere below it. `known`: texts that are right somewhere, ids above all. */
export function mutateFields(dice: Dice, schema: DescMessage, message: Message, known: readonly string[]): void {
  for (let times = 1 + Math.floor(dice() * 3); times > 0; times--) damage(dice, reflect(schema, message), known);
}

function damage(dice: Dice, message: ReflectMessage, known: readonly string[]): void {
  if (message.fields.length === 0) return;
  const field = pick(dice, message.fields);
  if (dice() < 0.1) {
    message.clear(field);
    return;
  }
  switch (field.fieldKind) {
    case 'scalar':
      message.set(field, scalar(dice, field.scalar, known));
      return;
    case 'message': {
      const child = message.get(field);
      damage(dice, child, known);
      message.set(field, child);
      return;
    }
    case 'list':
      damageList(dice, message, field, known);
      return;
    default:
      throw new Error(`${field.toString()}: the cluster has no such fields`);
  }
}

function damageList(dice: Dice, message: ReflectMessage, field: DescField & { fieldKind: 'list' }, known: readonly string[]): void {
  const list = message.get(field);
  const size = list.size;
  const way = dice();
  if (way < 0.2 && size > 0) {
    const copies = pick(dice, [1, 2, 201, 1_001]);
    for (let copy = 0; copy < copies; copy++) list.add(list.get(0));
  } else if (way < 0.3) list.clear();
  else if (field.listKind === 'message' && size > 0) damage(dice, list.get(Math.floor(dice() * size)) as ReflectMessage, known);
  else if (field.listKind === 'message') list.add(reflect(field.message, create(field.message)));
  else if (field.listKind === 'scalar') {
    const value = scalar(dice, field.scalar, known);
    if (size > 0 && way < 0.6) list.set(Math.floor(dice() * size), value);
    else list.add(value);
  }
}

function scalar(dice: Dice, type: ScalarType, known: readonly string[]): string | number | bigint | boolean | Uint8Array {
  const whole = pick(dice, hostileWholes);
  switch (type) {
    case ScalarType.BOOL:
      return dice() < 0.5;
    case ScalarType.INT32:
      return Number(BigInt.asIntN(32, whole));
    case ScalarType.UINT32:
      return Number(BigInt.asUintN(32, whole));
    case ScalarType.INT64:
      return whole;
    case ScalarType.BYTES:
      return new Uint8Array(Math.floor(dice() * 64)).map(() => dice() * 256);
    case ScalarType.STRING: {
      const text = dice() < 0.5 && known.length > 0 ? pick(dice, known) : pick(dice, hostileTexts);
      // Protobuf has no text that is not Unicode; such bytes come of the damage below.
      return text.toWellFormed();
    }
    default:
      throw new Error(`the cluster has no fields of type ${ScalarType[type]}`);
  }
}

/** The message's bytes, whole or with bits flipped, ranges cut, doubled, replaced, or the end missing. */
export function mutateBytes(dice: Dice, schema: DescMessage, message: Message): Uint8Array {
  let bytes = new Uint8Array(toBinary(schema, message));
  for (let times = Math.floor(dice() * 3); times > 0; times--) bytes = damaged(dice, bytes);
  return bytes;
}

function damaged(dice: Dice, bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const at = Math.floor(dice() * (bytes.length + 1));
  const length = 1 + Math.floor(dice() * 8);
  const noise = new Uint8Array(length).map(() => dice() * 256);
  switch (Math.floor(dice() * 6)) {
    case 0: {
      const flipped = bytes.slice();
      if (at < flipped.length) flipped[at] = (flipped[at] as number) ^ (1 << Math.floor(dice() * 8));
      return flipped;
    }
    case 1:
      return bytes.slice(0, at);
    case 2:
      return Buffer.concat([bytes.slice(0, at), bytes.slice(at + length)]);
    case 3:
      return Buffer.concat([bytes.slice(0, at), noise, bytes.slice(at)]);
    case 4:
      return Buffer.concat([bytes.slice(0, at), noise, bytes.slice(at + length)]);
    default:
      return Buffer.concat([bytes, bytes.slice(at)]);
  }
}
