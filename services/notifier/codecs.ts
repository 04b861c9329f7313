// How messages that others compressed are read: kafkajs brings gzip alone, and ends its consumer at the first batch of another kind. A topic
// made by hand may have the broker compress whatever comes, and a foreign sender may choose any of these.
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
// As a whole: Node does not see what is in it as exports.
import kafkajs, { type CompressionTypes } from 'kafkajs';
import { decompressFrame } from 'lz4-napi';
import { uncompress } from 'snappy';

// Clients in Java put snappy's blocks behind a header, each with its length; others send one block as it is.
const blocksHeader = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0]);
const versions = 8;

async function unsnap(bytes: Buffer): Promise<Buffer> {
  const block = async (part: Buffer) => Buffer.from(await uncompress(part));
  if (!bytes.subarray(0, blocksHeader.length).equals(blocksHeader)) return block(bytes);
  const blocks: Buffer[] = [];
  for (let place = blocksHeader.length + versions; place < bytes.length;) {
    const begin = place + 4;
    place = begin + bytes.readUInt32BE(place);
    blocks.push(await block(bytes.subarray(begin, place)));
  }
  return Buffer.concat(blocks);
}

/** Has all consumers of this process read every compression that Kafka knows; a second call changes nothing. */
export function readAllCompressions(): void {
  const codecs = kafkajs.CompressionCodecs as Record<CompressionTypes, () => unknown>;
  const register = (type: CompressionTypes, decompress: (bytes: Buffer) => Promise<Buffer>) => {
    codecs[type] = () => ({ decompress });
  };
  const { Snappy, LZ4, ZSTD } = kafkajs.CompressionTypes;
  register(Snappy, unsnap);
  register(LZ4, decompressFrame);
  register(ZSTD, promisify(zstdDecompress));
}
