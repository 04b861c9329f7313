import { ActiveCursors, activeUntil } from './active-cursors.ts';

const minute = 60_000;
const now = 1_700_000_000_000;

test('a cursor stays active for ten minutes', () => {
  expect(activeUntil(now)).toBe(now + 10 * minute);
});

test('an activated cursor is known to be active until a minute before its end, for its tenant alone', () => {
  const cursors = new ActiveCursors();
  cursors.activated(['a', 'b'], now);
  cursors.activated(['a'], now + 5 * minute);
  expect(cursors.isInactive('a', now + 13 * minute)).toBe(false);
  expect(cursors.isInactive('b', now + 9 * minute - 1)).toBe(false);
  expect(cursors.isInactive('b', now + 9 * minute)).toBe(true);
  expect(cursors.isInactive('c', now)).toBe(true);
  cursors.clear();
  expect(cursors.isInactive('a', now)).toBe(true);
});

test('beyond two hundred thousand tenants all are evicted: their cursors are activated again', () => {
  const cursors = new ActiveCursors();
  cursors.activated(
    Array.from({ length: 200_001 }, (_, place) => `t${place}`),
    now,
  );
  expect(cursors.isInactive('t0', now)).toBe(false);
  cursors.activated(['one more'], now);
  expect([cursors.isInactive('t0', now), cursors.isInactive('one more', now)]).toEqual([true, false]);
});
