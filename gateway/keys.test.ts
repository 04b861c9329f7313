import { newId } from '../services/platform/ids.ts';
import { newKeyText } from '../services/identity/credentials.ts';
import { looksLikeKey } from './keys.ts';

test('every key that identity makes looks like one', () => {
  for (let count = 0; count < 200; count += 1) expect(looksLikeKey(newKeyText(newId('key')))).toBe(true);
});

test('a key with any character changed, or one more or less, does not', () => {
  const text = newKeyText(newId('key'));
  for (let place = 0; place < text.length; place += 1) {
    const other = text[place] === '1' ? '2' : '1';
    expect([place, looksLikeKey(text.slice(0, place) + other + text.slice(place + 1))]).toEqual([place, false]);
  }
  for (const bad of ['', text.slice(1), text.slice(0, -1), `${text}0`, ` ${text}`, text.toUpperCase()])
    expect(looksLikeKey(bad)).toBe(false);
});
