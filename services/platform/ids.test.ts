import { newId, newUuid, toId, toUuid } from './ids.ts';

test('an identifier and its UUID are two spellings of one thing', () => {
  const uuid = newUuid();
  expect(toUuid('txn', toId('txn', uuid))).toBe(uuid);
});

test.each([
  ['of another prefix', newId('acc')],
  ['in upper case', newId('txn').toUpperCase()],
  ['too short', newId('txn').slice(0, -1)],
  ['with a letter that Crockford leaves out', newId('txn').replace(/.$/, 'u')],
  ['of more than 128 bits', `txn_8${newId('txn').slice(5)}`],
  ['whose bits have no version of a UUID', 'txn_01jd1zq5v8006n9w2k4m7p3r5t'],
  ['of version 0', 'txn_01jd1zq5v806n9w2k4m7p3r5t8'],
  ['of version 15', 'txn_01jd1zq5v8z6n9w2k4m7p3r5t8'],
  ['whose bits have no variant of a UUID', 'txn_01jd1zq5v8e6n0w2k4m7p3r5t8'],
])('a text %s is no identifier of a transaction', (_, id) => {
  expect(toUuid('txn', id)).toBeNull();
});

test('no change of one character makes a text that is refused in any other way', () => {
  const id = newId('txn');
  for (let place = 4; place < id.length; place++) {
    for (const letter of '0123456789abcdefghjkmnpqrstvwxyz') {
      const changed = id.slice(0, place) + letter + id.slice(place + 1);
      const uuid = toUuid('txn', changed);
      if (uuid !== null) expect(toId('txn', uuid)).toBe(changed);
    }
  }
});
