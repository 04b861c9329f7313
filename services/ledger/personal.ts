// Checks of the sealed personal data of a posting. What is in it only identity can tell.
import type { SealedData } from '../../proto/gen/ledger/v1/events_pb.js';
import { checkedId, invalid } from './fields.ts';

const maxItems = 4;
// 4 KiB and the tag of AES-256-GCM.
const [nonceBytes, tagBytes, maxBytes] = [12, 16, 4_112];

/** Checks the sealed data of a posting; returns how many bytes it adds to the event. Throws {@link Refusal} naming the field. */
export function checkedPersonalBytes(personal: SealedData[]): number {
  let bytes = 0;
  if (personal.length > maxItems) throw invalid('personal', 'max', String(personal.length), `personal must have at most ${maxItems} items`);
  personal.forEach(({ subjectId, nonce, ciphertext }, index) => {
    const path = `personal[${index}]`;
    checkedId(`${path}.subject_id`, 'subj', subjectId);
    if (personal.findIndex((other) => other.subjectId === subjectId) < index)
      throw invalid(`${path}.subject_id`, 'unique', subjectId, `${path}.subject_id is there already`);
    if (nonce.length !== nonceBytes || ciphertext.length <= tagBytes || ciphertext.length > maxBytes)
      throw invalid(
        `${path}.ciphertext`,
        'max',
        '',
        `${path} must have a nonce of ${nonceBytes} bytes and at most ${maxBytes} of ciphertext`,
      );
    bytes += 100 + ciphertext.length;
  });
  return bytes;
}
