// Free-form metadata: a JSON object that travels as text, because a protobuf Struct would lose its integers.
import { hasInvalidUnicode } from '../services/platform/json.ts';
import { numberText } from './json.ts';
import { validationError } from './errors.ts';
import { fieldMessage, echo } from './validation-messages.ts';

const maxBytes = 16_384;
const maxDepth = 10;

/** The JSON text of metadata, `""` for none. Throws a validation problem where it is too large or too deep. */
export function metadataText(metadata: object | null | undefined): string {
  if (metadata === null || metadata === undefined) return '';
  const text = tooDeep(metadata, maxDepth) ? null : JSON.stringify(metadata);
  if (text === null || Buffer.byteLength(text) > maxBytes) {
    throw validationError([
      { field: 'metadata', tag: 'max', value: echo(metadata), message: fieldMessage('metadata', 'max', { 'x-metadata': true }) },
    ]);
  }
  return text;
}

/** The tag of what is wrong with metadata, or null. */
export function metadataFault(metadata: object): 'type' | 'max' | 'unicode' | 'number' | null {
  if (numberText(metadata) !== null) return 'type';
  if (tooDeep(metadata, maxDepth) || Buffer.byteLength(JSON.stringify(metadata)) > maxBytes) return 'max';
  return textOrNumberFault(metadata);
}

/** The object itself is one deep. */
function tooDeep(value: object, left: number): boolean {
  if (left === 0) return true;
  for (const item of Object.values(value)) {
    if (typeof item === 'object' && item !== null && numberText(item) === null && tooDeep(item as object, left - 1)) return true;
  }
  return false;
}

function textOrNumberFault(value: unknown): 'unicode' | 'number' | null {
  if (typeof value === 'string') return hasInvalidUnicode(value) ? 'unicode' : null;
  if (numberText(value) !== null) return 'number';
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, item] of Object.entries(value)) {
    const found = textOrNumberFault(key) ?? textOrNumberFault(item);
    if (found) return found;
  }
  return null;
}
