// Array parameters of statements, mostly in PostgreSQL's binary form.
import { writeUuid } from './ids.ts';

/** An array parameter of numbers or words, as text. They must hold no spaces, quotes, commas or braces, because nothing is escaped. */
export function plainArray(values: readonly (string | number | bigint | boolean | null)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`;
}

/** An array parameter of UUIDs in binary form, which PostgreSQL reads faster than text. */
export function uuidArray(values: readonly (string | null)[]): Buffer {
  let nulls = 0;
  for (const value of values) if (value === null) nulls++;
  const bytes = Buffer.allocUnsafe(20 + values.length * 20 - nulls * 16);
  arrayHead(bytes, 2950, values.length, nulls > 0);
  let at = 20;
  for (const value of values) {
    at = writeInt32(bytes, value === null ? -1 : 16, at);
    if (value === null) continue;
    writeUuid(bytes, at, value);
    at += 16;
  }
  return bytes;
}

// One view for all: a buffer's own method takes a bigint apart by arithmetic.
const eight = new Uint8Array(8);
const view = new DataView(eight.buffer);

/** An array parameter of int8 in binary form. */
export function bigintArray(values: readonly bigint[]): Buffer {
  const bytes = Buffer.allocUnsafe(20 + values.length * 12);
  arrayHead(bytes, 20, values.length, false);
  let at = 20;
  for (const value of values) {
    view.setBigInt64(0, value);
    at = writeEight(bytes, at);
  }
  return bytes;
}

/** An array parameter of float8 in binary form. */
export function doubleArray(values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(20 + values.length * 12);
  arrayHead(bytes, 701, values.length, false);
  let at = 20;
  for (const value of values) {
    view.setFloat64(0, value);
    at = writeEight(bytes, at);
  }
  return bytes;
}

function writeEight(bytes: Buffer, at: number): number {
  const from = writeInt32(bytes, 8, at);
  for (let index = 0; index < 8; index++) bytes[from + index] = eight[index] as number;
  return from + 8;
}

/** An array parameter of text in binary form. Written in one call, with gaps for the lengths. */
export function textArray(values: readonly (string | null)[]): Buffer {
  const text = values.join('\0\0\0\0');
  const size = Buffer.byteLength(text);
  const bytes = Buffer.allocUnsafe(values.length === 0 ? 20 : 24 + size);
  arrayHead(bytes, 25, values.length, values.includes(null));
  if (size > 0) bytes.write(text, 24);
  const ascii = size === text.length;
  let at = 20;
  for (const value of values) {
    const length = value === null ? 0 : ascii ? value.length : Buffer.byteLength(value);
    at = writeInt32(bytes, value === null ? -1 : length, at) + length;
  }
  return bytes;
}

/** An array parameter of bytea in binary form. */
export function bytesArray(values: readonly (Uint8Array | null)[]): Buffer {
  const bytes = Buffer.allocUnsafe(20 + values.reduce((sum, value) => sum + 4 + (value?.length ?? 0), 0));
  arrayHead(bytes, 17, values.length, values.includes(null));
  let at = 20;
  for (const value of values) {
    at = writeInt32(bytes, value?.length ?? -1, at);
    if (!value) continue;
    bytes.set(value, at);
    at += value.length;
  }
  return bytes;
}

// Dimensions, whether there are nulls, the elements' type, their number and the first index; then each with its length, -1 for a null.
// https://github.com/postgres/postgres/blob/master/src/backend/utils/adt/arrayfuncs.c (array_recv)
function arrayHead(bytes: Buffer, type: number, length: number, nulls: boolean): void {
  writeInt32(bytes, 1, 0);
  writeInt32(bytes, nulls ? 1 : 0, 4);
  writeInt32(bytes, type, 8);
  writeInt32(bytes, length, 12);
  writeInt32(bytes, 1, 16);
}

// Without the range checks of `writeInt32BE`.
function writeInt32(bytes: Buffer, value: number, at: number): number {
  bytes[at] = value >> 24;
  bytes[at + 1] = value >> 16;
  bytes[at + 2] = value >> 8;
  bytes[at + 3] = value;
  return at + 4;
}
