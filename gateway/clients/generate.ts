// Generates the TypeScript client from the OpenAPI document: `npm run generate`, or into another directory.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@hey-api/openapi-ts';
import { openApiDocument } from './document.ts';
import { withoutTransport, type ClientDocument } from './operations.ts';
import { typescriptResources } from './typescript-resources.ts';

const [output = join(import.meta.dirname, 'typescript/gen')] = process.argv.slice(2);
const document = await openApiDocument();
const header = ['// @ts-nocheck', '// Made by `npm run generate` from the OpenAPI document: do not edit.'];
await createClient({
  input: withoutTransport(document, false) as unknown as Record<string, unknown>,
  output: { path: output, entryFile: false, header },
  logs: { level: 'silent', file: false },
  // One type for what is sent and what is answered.
  parser: { transforms: { readWrite: { enabled: false } } },
  // `…Data` is what an answer has in `data`.
  plugins: [{ name: '@hey-api/typescript', requests: '{{name}}Call' }],
});
writeFileSync(join(output, 'resources.gen.ts'), typescriptResources(document as unknown as ClientDocument));
process.exit(0);
