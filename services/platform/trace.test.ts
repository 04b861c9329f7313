// What is taken for a trace context, by the table of https://www.w3.org/TR/trace-context/#traceparent-header.
import { expect, test } from '@jest/globals';
import { ownTraceparent, traceparentOf } from './trace.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = '00f067aa0ba902b7';

test.each([
  [`00-${trace}-${parent}-01`, `00-${trace}-${parent}-01`],
  [`00-${trace}-${parent}-00`, `00-${trace}-${parent}-00`],
  [`00-${trace}-${parent}-ff`, `00-${trace}-${parent}-ff`],
  [`cc-${trace}-${parent}-01`, `00-${trace}-${parent}-01`],
  [`cc-${trace}-${parent}-01-what-comes-later`, `00-${trace}-${parent}-01`],
  [`00-${trace}-${parent}-01-what-comes-later`, null],
  [`00-${trace}-${parent}-01-`, null],
  [`cc-${trace}-${parent}-01.later`, null],
  [`ff-${trace}-${parent}-01`, null],
  [`00-${'0'.repeat(32)}-${parent}-01`, null],
  [`00-${trace}-${'0'.repeat(16)}-01`, null],
  [`00-${trace.toUpperCase()}-${parent}-01`, null],
  [`00-${trace}-${parent}`, null],
  [`00-${trace}-${parent}-1`, null],
  [` 00-${trace}-${parent}-01`, null],
  [`00-${trace}-${parent}-01, 00-${trace}-${parent}-01`, null],
  ['', null],
  [undefined, null],
])('of the header %p is kept %p', (text, kept) => {
  expect(traceparentOf(text)).toBe(kept);
});

test('an event without a caller’s trace begins one of its own that is valid and always the same', () => {
  const uuid = '0193b0c4-9a5e-7c1d-8f00-1234567890ab';
  for (const hash of [Buffer.alloc(32, 7), Buffer.alloc(32)]) {
    const own = ownTraceparent(uuid, hash);
    expect(traceparentOf(own)).toBe(own);
    expect(ownTraceparent(uuid, hash)).toBe(own);
    expect(own).toContain('0193b0c49a5e7c1d8f001234567890ab');
  }
});
