// Writes the methods of the TypeScript client: their types, and the table that the client reads.
import { pascalCase } from '../openapi-names.ts';
import { camelCase, nounsOf, type ClientDocument, type Method } from './operations.ts';

const importLines = [
  ['{ CallOptions, Operation }', '../call.ts'],
  ['{ Listing }', '../listing.ts'],
  ['* as T', './types.gen.ts'],
]
  .map(([names, from]) => `import type ${names} from '${from}';`)
  .join('\n');

/** The text of `resources.gen.ts`. */
export function typescriptResources(document: ClientDocument): string {
  const lines = (print: (method: Method) => string, end: string): string =>
    nounsOf(document)
      .map(([noun, of]) => `  ${noun}: {\n${of.map(print).join('\n')}\n  }${end}`)
      .join('\n');
  return `// @ts-nocheck
// Made by \`npm run generate\` from the OpenAPI document: do not edit.
${importLines}

/** Every operation by noun and verb. */
export interface Resources {
${lines((method) => [`    /** ${method.doc.replaceAll('*/', '* /')} */`, ...signaturesOf(method).map((each) => `    ${camelCase(method.verb)}${each};`)].join('\n'), ';')}
}

/** What the client sends for each. */
export const operations: { readonly [Noun in keyof Resources]: { readonly [Verb in keyof Resources[Noun]]: Operation } } = {
${lines((method) => `    ${camelCase(method.verb)}: ${entryOf(method)},`, ',')}
};
`;
}

function signaturesOf({ id, parameters, query, body, answer, paging }: Method): string[] {
  const call = `T.${pascalCase(id)}Call`;
  const isNeeded = query.some((each) => each.required === true);
  const options = query.length === 0 ? 'CallOptions' : `${call}['query'] & CallOptions`;
  const bodyType = body?.type === 'application/json' ? `${call}['body']` : 'string | Uint8Array | ReadableStream<Uint8Array>';
  const signature = (given: string, type: string, needed: boolean): string => {
    const ownBody = body && `body${body.required || needed ? '' : '?'}: ${bodyType}${body.required || !needed ? '' : ' | undefined'}`;
    const sent = [...parameters.map((each) => `${camelCase(each)}: string`), ...(ownBody === undefined ? [] : [ownBody])];
    return `(${[...sent, `options${needed ? '' : '?'}: ${given}`].join(', ')}): ${type}`;
  };
  const none = answer.kind === 'json' ? 'Record<string, unknown>' : 'Record<string, never>';
  const type = answer.kind === 'response' ? 'Response' : answer.schema === '' ? none : `T.${answer.schema}`;
  const item = paging?.items.split('.').map((name) => `['${name}']`);
  return [
    ...(answer.tried === undefined ? [] : [signature(`${options} & { dry_run: true }`, `Promise<T.${answer.tried}>`, true)]),
    ...(answer.hasFiles ? [signature(`${options} & { format: 'csv' | 'xlsx' | 'pdf' }`, 'Promise<Response>', true)] : []),
    signature(options, item ? `Listing<${type}, ${type}${item.join('')}[number]>` : `Promise<${type}>`, isNeeded),
  ];
}

function entryOf({ method, path, by, body, answer, takesKey, repeatable, paging }: Method): string {
  return JSON.stringify({
    ...{ method, path, by },
    ...(body && { body: body.type }),
    ...(answer.kind !== 'data' && { answer: answer.kind }),
    ...(takesKey && { takesKey }),
    ...(repeatable && { repeatable }),
    ...(paging && { paging: { by: paging.by, items: paging.items } }),
  });
}
