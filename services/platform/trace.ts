// The trace context that travels with a change, https://www.w3.org/TR/trace-context/.

const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * What a `traceparent` says, in the form of version 00; null for one that is invalid or absent, which the standard has ignored. Of a later
 * version the parts that this one knows are kept.
 */
export function traceparentOf(text: string | string[] | null | undefined): string | null {
  if (typeof text !== 'string') return null;
  const [, version, trace, parent, flags, rest] = form.exec(text) ?? [];
  if (version === undefined || (version === '00' && rest !== undefined)) return null;
  return `00-${trace}-${parent}-${flags}`;
}

/**
 * The trace of an event whose caller sent none: made from the event's UUID and hash, so the same however often it is published. Its flag
 * says that nobody has recorded it.
 */
export function ownTraceparent(uuid: string, hash: Buffer): string {
  return `00-${uuid.replaceAll('-', '')}-${hash.toString('hex', 0, 8).replace(/^0{16}$/, '0000000000000001')}-00`;
}

/** Whether a `traceparent` in the form of version 00 says that its trace is recorded. */
export const isRecorded = (traceparent: string): boolean => (Number.parseInt(traceparent.slice(53), 16) & 1) === 1;
