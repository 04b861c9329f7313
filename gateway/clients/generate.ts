// Generates the TypeScript client from the OpenAPI document: `npm run generate`, or into another directory.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@hey-api/openapi-ts';
import { openApiDocument } from './document.ts';
import { resourcesFile, type ClientDocument } from './resources.ts';

const [output = join(import.meta.dirname, 'typescript/gen')] = process.argv.slice(2);
const document = await openApiDocument();
await createClient({
  input: typesOnly(document),
  output: {
    path: output,
    entryFile: false,
    header: ['// @ts-nocheck', '// Made by `npm run generate` from the OpenAPI document: do not edit.'],
  },
  logs: { level: 'silent', file: false },
  // One type for what is sent and what is answered.
  parser: { transforms: { readWrite: { enabled: false } } },
  // `…Data` is what an answer has in `data`.
  plugins: [{ name: '@hey-api/typescript', requests: '{{name}}Call' }],
});
writeFileSync(join(output, 'resources.gen.ts'), resourcesFile(document as unknown as ClientDocument));
process.exit(0);

/** The document without what the layer over the types knows: errors, and parameters in headers and of the tenant. */
function typesOnly(whole: Record<string, unknown>): Record<string, unknown> {
  const copy = structuredClone(whole) as unknown as ClientDocument & Record<string, unknown>;
  delete copy['webhooks'];
  for (const operation of Object.values(copy.paths).flatMap((item) => Object.values(item))) {
    const { parameters = [], responses } = operation;
    operation.parameters = parameters.filter((each) => each.in === 'query');
    for (const status of Object.keys(responses)) if (/^[45]XX$/.test(status)) Reflect.deleteProperty(responses, status);
  }
  return copy;
}
