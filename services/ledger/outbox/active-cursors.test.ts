import { ActiveCursors, activeUntil } from './active-cursors.ts';

const minute = 60_000;
const now = 1_700_000_000_000;

test('a mark stays open for ten minutes', () => {
  expect(activeUntil(now)).toBe(now + 10 * minute);
});

test('a mark that nobody has opened must be opened', () => {
  expect(new ActiveCursors().isInactive('a', now)).toBe(true);
});

test('an opened mark is known to be open until a minute before it may be closed, for its tenant alone', () => {
  const marks = new ActiveCursors();
  marks.activated(['a', 'b'], now);
  expect(marks.isInactive('a', now)).toBe(false);
  expect(marks.isInactive('b', now + 9 * minute - 1)).toBe(false);
  expect(marks.isInactive('b', now + 9 * minute)).toBe(true);
  expect(marks.isInactive('c', now)).toBe(true);
});

test('a mark opened again is open for longer', () => {
  const marks = new ActiveCursors();
  marks.activated(['a'], now);
  marks.activated(['a'], now + 5 * minute);
  expect(marks.isInactive('a', now + 13 * minute)).toBe(false);
});

test('beyond two hundred thousand tenants all are forgotten rather than kept for ever: they are opened again', () => {
  const marks = new ActiveCursors();
  const many = Array.from({ length: 200_000 }, (_, place) => `t${place}`);
  marks.activated(many, now);
  marks.activated(['one more'], now);
  expect(marks.isInactive('t0', now)).toBe(false);
  marks.activated(['the last straw'], now);
  expect(marks.isInactive('t0', now)).toBe(true);
  expect(marks.isInactive('the last straw', now)).toBe(false);
});
