import { OpenMarks, openUntil } from './marks.ts';

const minute = 60_000;
const now = 1_700_000_000_000;

test('a mark stays open for ten minutes', () => {
  expect(openUntil(now)).toBe(now + 10 * minute);
});

test('a mark that nobody has opened must be opened', () => {
  expect(new OpenMarks().mustOpen('a', now)).toBe(true);
});

test('an opened mark is known to be open until a minute before it may be closed, for its tenant alone', () => {
  const marks = new OpenMarks();
  marks.opened(['a', 'b'], now);
  expect(marks.mustOpen('a', now)).toBe(false);
  expect(marks.mustOpen('b', now + 9 * minute - 1)).toBe(false);
  expect(marks.mustOpen('b', now + 9 * minute)).toBe(true);
  expect(marks.mustOpen('c', now)).toBe(true);
});

test('a mark opened again is open for longer', () => {
  const marks = new OpenMarks();
  marks.opened(['a'], now);
  marks.opened(['a'], now + 5 * minute);
  expect(marks.mustOpen('a', now + 13 * minute)).toBe(false);
});

test('beyond two hundred thousand tenants all are forgotten rather than kept for ever: they are opened again', () => {
  const marks = new OpenMarks();
  const many = Array.from({ length: 200_000 }, (_, place) => `t${place}`);
  marks.opened(many, now);
  marks.opened(['one more'], now);
  expect(marks.mustOpen('t0', now)).toBe(false);
  marks.opened(['the last straw'], now);
  expect(marks.mustOpen('t0', now)).toBe(true);
  expect(marks.mustOpen('the last straw', now)).toBe(false);
});
