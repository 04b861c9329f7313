// Checks a client's metadata, a JSON object. It travels as text, because a protobuf Struct would turn integers into doubles.
import { hasInvalidUnicode } from '../services/platform/json.ts';
import { validationError } from './errors.ts';
import { inexactNumberText } from './json.ts';
import { echo, fieldMessage } from './validation-messages.ts';

/** The size of metadata as JSON. */
const defaultBytes = 16_384;
const maxDepth = 10;

/** The JSON text of metadata, `""` for none. Throws a validation error that names the field where it is too large or too deep. */
export function metadataText(metadata: object | null | undefined, field = 'metadata', maxBytes = defaultBytes): string {
  if (metadata === null || metadata === undefined) return '';
  const text = isTooDeep(metadata, maxDepth) ? null : JSON.stringify(metadata);
  if (text === null || Buffer.byteLength(text) > maxBytes) {
    const message = fieldMessage(field, 'max', { 'x-metadata': maxBytes });
    throw validationError([{ field, tag: 'max', value: echo(metadata), message }]);
  }
  return text;
}

/** The tag of the validation error of metadata, or null if it is valid. */
export function metadataFault(metadata: object, maxBytes = defaultBytes): 'type' | 'max' | 'unicode' | 'number' | null {
  if (inexactNumberText(metadata) !== null) return 'type';
  if (isTooDeep(metadata, maxDepth) || Buffer.byteLength(JSON.stringify(metadata)) > maxBytes) return 'max';
  return contentFault(metadata);
}

/** `levels`: how many are allowed; a flat object has one. */
function isTooDeep(value: object, levels: number): boolean {
  if (levels === 0) return true;
  return Object.values(value).some(
    (item) => typeof item === 'object' && item !== null && inexactNumberText(item) === null && isTooDeep(item as object, levels - 1),
  );
}

function contentFault(value: unknown): 'unicode' | 'number' | null {
  if (typeof value === 'string') return hasInvalidUnicode(value) ? 'unicode' : null;
  if (inexactNumberText(value) !== null) return 'number';
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, item] of Object.entries(value)) {
    const found = contentFault(key) ?? contentFault(item);
    if (found) return found;
  }
  return null;
}
