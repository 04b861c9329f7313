// Identifiers: TypeIDs (a prefix and 26 characters of Crockford base32 over a UUIDv7) on every wire, `uuid` in the database.
// https://github.com/jetify-com/typeid/tree/main/spec
import { TypeID, typeid } from 'typeid-js';

/** What an identifier names. */
export type Prefix = 'tenant' | 'user' | 'key' | 'txn' | 'acc' | 'evt' | 'wh_delivery';

// The library also takes upper case; a second spelling of one id would be a second fingerprint of one request.
const suffix = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** A new identifier, ordered by time. */
export function newId(prefix: Prefix): string {
  return typeid(prefix).toString();
}

/** The UUID of an identifier, or null where the text is not one of this prefix. */
export function toUuid(prefix: Prefix, id: string): string | null {
  if (id.length !== prefix.length + 27 || id[prefix.length] !== '_' || !id.startsWith(prefix)) return null;
  const rest = id.slice(prefix.length + 1);
  return suffix.test(rest) ? TypeID.fromString(id).toUUID() : null;
}

/** The identifier of a UUID. */
export function toId(prefix: Prefix, uuid: string): string {
  return TypeID.fromUUID(prefix, uuid).toString();
}
