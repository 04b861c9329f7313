// The header `Range` of a request: one range of bytes of a whole that does not change (RFC 9110, section 14).

/** A part of the bytes; `length` is at least 1. */
export interface ByteRange {
  offset: number;
  length: number;
}

/**
 * The range that is asked for of so many bytes: null is all of them, `unsatisfiable` none. Ranges in other units, several, or of another version
 * (`If-Range`) are ignored, as the standard allows.
 */
export function byteRange(
  headers: { range?: string | undefined; 'if-range'?: string | string[] | undefined },
  bytes: number,
  etag: string,
): ByteRange | null | 'unsatisfiable' {
  const [, first = '', last = ''] = /^bytes=\s*([0-9]*)-([0-9]*)\s*$/i.exec(headers.range ?? '') ?? [];
  if (first + last === '' || (headers['if-range'] !== undefined && headers['if-range'] !== etag)) return null;
  // The last so many bytes.
  const from = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const to = first === '' || last === '' ? bytes - 1 : Math.min(bytes - 1, Number(last));
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null;
  return from > to ? 'unsatisfiable' : { offset: from, length: to - from + 1 };
}
