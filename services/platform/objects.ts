// What decoding a message would make, counted on the wire before: each message inside, be it empty, and each field that is not known is an object
// and takes up to a microsecond, so that 16 MiB of two bytes each kept a service from all else for 7 to 18 s. Counting them takes 0.1 s at most.
import type { DescMessage } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

// More than any message of ours has; so many that are known cost what an object does.
const fieldsPerObject = 16;

/**
 * Whether decoding a message makes more than `most` objects (messages at any depth, fields that are not known), or reads more than 16 fields for
 * each of them; what is beyond is not looked at. May throw where the bytes are no message.
 */
export function makesMoreThan(most: number, type: DescMessage, bytes: Uint8Array): boolean {
  // Each begins with a tag, of a byte at least.
  if (bytes.length <= most) return false;
  const mostFields = most * fieldsPerObject;
  const reader = new BinaryReader(bytes);
  let objects = 0;
  let fields = 0;
  const count = (of: DescMessage, end: number): void => {
    const known = fieldsOf(of);
    while (reader.pos < end && objects <= most && fields <= mostFields) {
      const [number, wireType] = reader.tag();
      const inside = known.get(number);
      fields++;
      if (inside !== null) objects++;
      if (wireType === WireType.LengthDelimited) {
        const length = reader.uint32();
        if (inside) count(inside, reader.pos + length);
        else reader.pos += length;
      } else if (wireType === WireType.Varint) reader.uint64();
      else if (wireType === WireType.Bit32) reader.pos += 4;
      else if (wireType === WireType.Bit64) reader.pos += 8;
      // A group has two tags; what stands between them counts as if it stood around.
    }
  };
  count(type, bytes.length);
  return objects > most || fields > mostFields;
}

const remembered = new WeakMap<DescMessage, Map<number, DescMessage | null>>();

/** The fields of a message by their numbers: the type of the message that a field holds, null where it holds none. Maps are not looked into. */
function fieldsOf(type: DescMessage): Map<number, DescMessage | null> {
  let fields = remembered.get(type);
  if (!fields) {
    fields = new Map(type.fields.map((field) => [field.number, field.fieldKind === 'map' ? null : (field.message ?? null)]));
    remembered.set(type, fields);
  }
  return fields;
}
