// Array parameters of statements, mostly in PostgreSQL's binary form.
import { writeUuid } from './ids.ts';

/**
 * An array parameter of numbers or words without spaces, quotes, commas or braces, as text: pg's own form looks at every character of every
 * element for something to escape.
 */
export function plainArray(values: readonly (string | number | bigint | null)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join(',')}}`;
}

/** An array parameter of UUIDs in PostgreSQL's binary form: parsing the text of arrays took it a fifth of a busy writer's time. */
export function uuidArray(values: readonly (string | null)[]): Buffer {
  return binaryArray(2950, 16, values, (bytes, _, at, value) => writeUuid(bytes, at, value));
}

/** An array parameter of int8 in binary form. */
export function bigintArray(values: readonly bigint[]): Buffer {
  return binaryArray(20, 8, values, (_, view, at, value) => view.setBigInt64(at, value));
}

/** An array parameter of float8 in binary form. */
export function doubleArray(values: readonly number[]): Buffer {
  return binaryArray(701, 8, values, (_, view, at, value) => view.setFloat64(at, value));
}

/**
 * An array parameter of text in binary form: pg's own form looks at every character for something to escape. Written in one call, with gaps
 * for the lengths: two calls for each element took three times as long.
 */
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
    bytes.writeInt32BE(value === null ? -1 : length, at);
    at += 4 + length;
  }
  return bytes;
}

/** An array parameter of bytea in binary form. */
export function bytesArray(values: readonly (Uint8Array | null)[]): Buffer {
  const bytes = Buffer.allocUnsafe(20 + values.reduce((sum, value) => sum + 4 + (value?.length ?? 0), 0));
  arrayHead(bytes, 17, values.length, values.includes(null));
  let at = 20;
  for (const value of values) {
    bytes.writeInt32BE(value?.length ?? -1, at);
    if (value) bytes.set(value, at + 4);
    at += 4 + (value?.length ?? 0);
  }
  return bytes;
}

// Dimensions, whether there are nulls, the elements' type, their number and the first index; then each with its length, -1 for a null.
// https://github.com/postgres/postgres/blob/master/src/backend/utils/adt/arrayfuncs.c (array_recv)
// Numbers by a view: a buffer takes a bigint apart by arithmetic, 120 instead of 20 ns.
function binaryArray<Value>(
  type: number,
  size: number,
  values: readonly (Value | null)[],
  write: (bytes: Buffer, view: DataView, at: number, value: Value) => void,
): Buffer {
  const nulls = values.reduce((count, value) => count + (value === null ? 1 : 0), 0);
  const bytes = Buffer.allocUnsafe(20 + values.length * (4 + size) - nulls * size);
  arrayHead(bytes, type, values.length, nulls > 0);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  let at = 20;
  for (const value of values) {
    view.setInt32(at, value === null ? -1 : size);
    at += 4;
    if (value === null) continue;
    write(bytes, view, at, value);
    at += size;
  }
  return bytes;
}

function arrayHead(bytes: Buffer, type: number, length: number, nulls: boolean): void {
  bytes.writeInt32BE(1, 0);
  bytes.writeInt32BE(nulls ? 1 : 0, 4);
  bytes.writeInt32BE(type, 8);
  bytes.writeInt32BE(length, 12);
  bytes.writeInt32BE(1, 16);
}
