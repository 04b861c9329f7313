import fc from 'fast-check';
import { cursorRule, encodeCursor } from '../platform/cursor.ts';
import { newId, newUuid, toUuid } from '../platform/ids.ts';
import {
  afterCursor,
  clientAddress,
  email,
  integer,
  invalid,
  newPassword,
  oneOf,
  optionalText,
  pageSize,
  password,
  secret,
  slug,
  text,
  uuidOf,
} from './fields.ts';
import { Refusal } from './refusal.ts';

/** What a field is refused for: tag, message and the value that is repeated. */
function refused(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.reason).toBe('validation_failed');
    const { field, tag, value } = error.details;
    return { field, tag, value, message: error.message };
  }
}
const because = (tag: string, predicate: string, value = '', field = 'f') => ({ field, tag, value, message: `${field} ${predicate}` });
const required = because('required', 'is required');
const notText = because('unicode', 'has a character that is not text');

test('an error names the field, the tag and the value', () => {
  expect(invalid('f', 'gt', 'is wrong', '0')).toMatchObject({
    reason: 'validation_failed',
    message: 'f is wrong',
    details: { field: 'f', tag: 'gt', value: '0' },
  });
});

describe('a text', () => {
  test('has one to as many characters as it may, counted in code points', () => {
    expect(text('f', 'x', 3)).toBe('x');
    expect(text('f', '👩👩👩', 3)).toBe('👩👩👩');
    expect(refused(() => text('f', '', 3))).toEqual(required);
    expect(refused(() => text('f', 'abcd', 3))).toEqual(because('max', 'is longer than 3 characters', 'abc'));
  });

  test.each(['a\0', '\ud800', 'a\udc00b'])('that PostgreSQL can’t keep is refused: %j', (value) => {
    expect(refused(() => text('f', value, 10))).toEqual(notText);
  });

  test('that may be absent is null where it is, and empty where it is', () => {
    expect(optionalText('f', undefined, 3)).toBeNull();
    expect(optionalText('f', '', 3)).toBe('');
    expect(optionalText('f', 'abc', 3)).toBe('abc');
    expect(refused(() => optionalText('f', 'abcd', 3))).toEqual(because('max', 'is longer than 3 characters', 'abc'));
  });
});

describe('an email', () => {
  test.each(['a@b', 'ada.obi+x@example.com', 'é@ü.example', `${'a'.repeat(252)}@b`])('is something at a host: %s', (value) => {
    expect(email('f', value)).toBe(value);
  });

  test.each(['a', '@', 'a@', '@b', 'a@b@c', 'a b@c', 'a@b c', ' a@b', 'a@b ', 'a@b\n', 'a\u0007@b', 'a@b\u0007'])(
    'is none without one, or with blanks or control characters: %j',
    (value) => {
      expect(refused(() => email('f', value))).toEqual(because('email', 'is not an email address', value));
    },
  );

  test('has at most 254 characters', () => {
    expect(refused(() => email('f', `${'a'.repeat(253)}@b`))).toMatchObject({ tag: 'max' });
    expect(refused(() => email('f', ''))).toEqual(required);
  });
});

describe('a password', () => {
  test('that is new has 8 to 128 characters, counted in code points, and is never repeated', () => {
    for (const good of ['12345678', 'x'.repeat(128), '👩'.repeat(8), '👩'.repeat(128)]) expect(newPassword('f', good)).toBe(good);
    expect(refused(() => newPassword('f', '👩'.repeat(7)))).toEqual(because('min', 'is shorter than 8 characters'));
    expect(refused(() => newPassword('f', 'x'.repeat(129)))).toEqual(because('max', 'is longer than 128 characters'));
    expect(refused(() => newPassword('f', ''))).toEqual(required);
    expect(refused(() => newPassword('f', '1234567\0'))).toEqual(notText);
  });

  test('is the same however its letters are composed, and as long as it was typed', () => {
    for (const read of [newPassword, password]) expect(read('f', 'pa\u0308sswo\u0308rd')).toBe('p\u00e4ssw\u00f6rd');
    // Compatible is not the same.
    expect(password('f', '\ufb01\u2460')).toBe('\ufb01\u2460');
    expect(newPassword('f', 'e\u0301'.repeat(4))).toBe('\u00e9'.repeat(4));
    expect(refused(() => newPassword('f', '\u0958'.repeat(7)))).toEqual(because('min', 'is shorter than 8 characters'));
    expect(newPassword('f', '\u0958'.repeat(128))).toBe('\u0915\u093c'.repeat(128));
    expect(refused(() => password('f', 'e\u0301'.repeat(65)))).toEqual(because('max', 'is longer than 128 characters'));
  });

  test('of a login may be shorter: it was chosen by other rules', () => {
    expect(password('f', 'x')).toBe('x');
    expect(refused(() => password('f', ''))).toEqual(required);
    expect(refused(() => password('f', 'x'.repeat(129)))).toEqual(because('max', 'is longer than 128 characters'));
    expect(refused(() => password('f', '\ud800'))).toEqual(notText);
  });
});

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
  ['0000:0000:0000:0000:0000:FFFF:C000:0207', '192.0.2.7'],
  ['::0:ffff:192.0.2.7%eth0', '192.0.2.7'],
  ['::ffff:0:c000:207', '0:0:0:0::/64'],
  ['::192.0.2.7', '0:0:0:0::/64'],
  ['x'.repeat(100), 'x'.repeat(64)],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['64:ff9b::c000:207', '192.0.2.7'],
  ['0064:FF9B:0:0:0:0:192.0.2.7', '192.0.2.7'],
  ['64:ff9b::1:c000:207', '64:ff9b:0:0::/64'],
  ['64:ff9b:1::c000:207', '64:ff9b:1:0::/64'],
  ['192.0.2.7:54321', '192.0.2.7'],
  ['[2001:db8:1:2::1]:54321', '2001:db8:1:2::/64'],
  ['[::ffff:192.0.2.7]:1', '192.0.2.7'],
  ['::ffff:192.0.2.700', '::ffff:192.0.2.700'],
  ['192.0.2.7:', '192.0.2.7:'],
  ['host:54321', 'host:54321'],
  ['', ''],
  ['unix socket', 'unix socket'],
])('for a limit the address %j is %j', (address, limited) => {
  expect(clientAddress(address)).toBe(limited);
});

test('an IPv4 address counts as one, mapped or translated, in decimal or hexadecimal', () => {
  const bytes = fc.uint8Array({ minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(bytes, fc.constantFrom('::ffff:', '64:ff9b::'), (four, prefix) => {
      const hex = Buffer.from(four).toString('hex');
      expect(clientAddress(`${prefix}${four.join('.')}`)).toBe(four.join('.'));
      expect(clientAddress(`${prefix}${hex.slice(0, 4)}:${hex.slice(4)}`)).toBe(four.join('.'));
    }),
  );
});

test('all addresses of one /64 count as one, those of another do not', () => {
  const group = fc.integer({ min: 0, max: 0xffff }).map((number) => number.toString(16));
  const four = fc.tuple(group, group, group, group).map((groups) => groups.join(':'));
  fc.assert(
    fc.property(four, four, four, (network, host, other) => {
      expect(clientAddress(`${network}:${host}`)).toBe(`${network}::/64`);
      expect(clientAddress(`${network}:${host}`) === clientAddress(`${other}:${host}`)).toBe(network === other);
    }),
  );
});

test('a secret is there, whatever it is', () => {
  expect(secret('f', '\0')).toBe('\0');
  expect(refused(() => secret('f', ''))).toEqual(required);
});

test('one of several words is one of them, and a wrong one is repeated in part', () => {
  const words = ['wallet', 'other'];
  expect(oneOf('f', 'other', words)).toBe('other');
  expect(refused(() => oneOf('f', '', words))).toEqual(required);
  expect(refused(() => oneOf('f', 'x'.repeat(300), words))).toEqual(because('oneof', 'must be one of wallet, other', 'x'.repeat(255)));
});

describe('a slug', () => {
  test.each(['abc', 'a-b', '0-9-z', 'ab1', 'abc-def-ghi', 'x'.repeat(63)])('is %s', (value) => {
    expect(slug('f', value)).toBe(value);
  });

  test.each(['ab', 'x'.repeat(64), 'Abc', '-abc', 'abc-', 'a--b', 'a_b', 'ab c', 'äbc', 'abc\n', 'x'.repeat(300)])('is not %j', (value) => {
    const predicate = 'must be 3 to 63 lower-case letters and digits with single hyphens between';
    expect(refused(() => slug('f', value))).toEqual(because('slug', predicate, value.slice(0, 255)));
  });

  test('is required', () => {
    expect(refused(() => slug('f', ''))).toEqual(required);
  });
});

test('a whole number lies within its bounds, which belong to it', () => {
  expect([integer('f', 2, 2, 4), integer('f', 4, 2, 4)]).toEqual([2, 4]);
  expect(refused(() => integer('f', 1, 2, 4))).toEqual(because('min', 'is below 2', '1'));
  expect(refused(() => integer('f', 5, 2, 4))).toEqual(because('max', 'is above 4', '5'));
});

test('a page has 1 to 100 items, and 50 by default', () => {
  expect([0, 1, 100].map(pageSize)).toEqual([50, 1, 100]);
  expect(refused(() => pageSize(-1))).toEqual(because('min', 'is below 1', '-1', 'limit'));
  expect(refused(() => pageSize(101))).toEqual(because('max', 'is above 100', '101', 'limit'));
});

test('a cursor leads back to its UUID, in its own list only; none is the first page', () => {
  const uuid = newUuid();
  const cursor = encodeCursor(['tenants', 'ada'], uuid);
  expect([afterCursor(['tenants', 'ada'], cursor), afterCursor(['tenants', 'ada'], '')]).toEqual([uuid, null]);
  for (const scope of [
    ['api keys', 'ada'],
    ['tenants', 'eve'],
  ] as const) {
    expect(refused(() => afterCursor(scope, cursor))).toEqual(because('cursor', cursorRule, cursor, 'cursor'));
  }
});

test('a malformed identifier throws the given error', () => {
  const id = newId('key');
  const otherwise = () => new Refusal('key_not_found', 'no such key');
  expect(uuidOf('key', id, otherwise)).toBe(toUuid('key', id));
  expect(() => uuidOf('tenant', id, otherwise)).toThrow('no such key');
});
