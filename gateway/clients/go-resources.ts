// Writes the methods of the Go client.
import { pascalCase } from '../openapi-names.ts';
import { bodyName, camelCase, nounsOf, type ClientDocument, type Method } from './operations.ts';

const words = new Set(['type', 'range', 'import', 'map', 'func', 'select', 'default']);
const exported = (name: string): string => pascalCase(camelCase(name));
const argument = (name: string): string => (words.has(name) ? `${name}_` : camelCase(name));

/** The text of `resources.go`. */
export function goResources(document: ClientDocument): string {
  const nouns = nounsOf(document);
  const fields = nouns.map(([noun]) => `\t${exported(noun)} *${exported(noun)}Service`);
  const values = nouns.map(([noun]) => `\t\t${exported(noun)}: &${exported(noun)}Service{client},`);
  const services = nouns.map(([noun, methods]) =>
    [
      `// ${exported(noun)}Service has the operations of ${noun}.`,
      `type ${exported(noun)}Service struct{ client *Client }`,
      ...methods.flatMap(methodOf),
    ].join('\n'),
  );
  return `// Every operation of the API by noun and verb.
//
// Code generated from the OpenAPI document. DO NOT EDIT.

package ledger

import (
\t"context"
\t"iter"
\t"net/http"
)

type services struct {
${fields.join('\n')}
}

func newServices(client *Client) services {
\treturn services{
${values.join('\n')}
\t}
}

${services.join('\n\n')}
`;
}

function methodOf(method: Method): string[] {
  const { noun, verb, id, parameters, body, answer, paging } = method;
  // A dry run is a method of its own, because it answers another type.
  const query = answer.tried === undefined ? method.query : method.query.filter((each) => each.name !== 'dry_run');
  const bodyType = body?.type === 'application/json' ? `${body.required ? '' : '*'}${bodyName(id)}` : '[]byte';
  const taken = ['ctx context.Context', ...parameters.map((each) => `${argument(each)} string`), ...(body ? [`body ${bodyType}`] : [])];
  const own = [...taken, ...(query.length > 0 ? [`params *${pascalCase(id)}Params`] : []), 'options ...CallOption'];
  const passed = [...(body ? ['body'] : ['nil']), query.length > 0 ? 'params' : 'nil'];
  const start = (name: string, given: string[], type: string): string =>
    `func (s *${exported(noun)}Service) ${name}(${given.join(', ')}) ${type} {`;
  const path = `[]string{${parameters.map(argument).join(', ')}}`;
  const args = (sent: string[]): string => `(ctx, s.client, ${entryOf(method)}, ${path}, ${sent.join(', ')}, options)`;
  const doc = (name: string, text: string): string[] => ['', ...`${name}: ${text}`.split('\n').map((line) => `// ${line}`)];
  const name = exported(verb);
  const data = answer.schema === '' ? 'map[string]any' : answer.schema;
  const response = '(*http.Response, error)';
  if (answer.kind === 'response') {
    return [...doc(name, `${method.doc} The caller closes the body.`), start(name, own, response), `\treturn respond${args(passed)}`, '}'];
  }
  return [
    ...doc(name, method.doc),
    start(name, own, `(*${data}, error)`),
    `\treturn ${answer.kind === 'json' ? 'decode' : 'call'}[${data}]${args(passed)}`,
    '}',
    ...(answer.tried === undefined
      ? []
      : [
          ...doc(`${name}DryRun`, `the same, decided by the real rules and not done.`),
          start(`${name}DryRun`, [...taken, 'options ...CallOption'], `(*${answer.tried}, error)`),
          `\treturn call[${answer.tried}]${args([body ? 'body' : 'nil', 'map[string]any{"dry_run": true}'])}`,
          '}',
        ]),
    ...(answer.hasFiles
      ? [
          ...doc(`${name}File`, 'the same in the Format of params. The caller closes the body.'),
          start(`${name}File`, own, response),
          `\treturn respond${args(passed)}`,
          '}',
        ]
      : []),
    ...(paging ? allOf(method, name, paging, own) : []),
  ];
}

function allOf({ noun, id, parameters }: Method, name: string, paging: NonNullable<Method['paging']>, own: string[]): string[] {
  const item = paging.item === '' ? 'any' : paging.item;
  const params = `${pascalCase(id)}Params`;
  const items = paging.items.split('.').map(exported).join('.');
  const next = {
    cursor: ['at.Cursor = page.Pagination.NextCursor'],
    after_sequence: [`at.AfterSequence = &page.${items}[len(page.${items})-1].Sequence`],
    offset: [`offset := page.Pagination.Offset + len(page.${items})`, 'at.Offset = &offset'],
  }[paging.by];
  return [
    '',
    `// ${name}All: every item, page by page.`,
    `func (s *${exported(noun)}Service) ${name}All(${own.join(', ')}) iter.Seq2[${item}, error] {`,
    `\treturn func(yield func(${item}, error) bool) {`,
    `\t\tvar at ${params}`,
    '\t\tif params != nil {',
    '\t\t\tat = *params',
    '\t\t}',
    '\t\tfor {',
    `\t\t\tpage, err := s.${name}(${['ctx', ...parameters.map(argument), '&at', 'options...'].join(', ')})`,
    '\t\t\tif err != nil {',
    `\t\t\t\tvar none ${item}`,
    '\t\t\t\tyield(none, err)',
    '\t\t\t\treturn',
    '\t\t\t}',
    `\t\t\tfor _, item := range page.${items} {`,
    '\t\t\t\tif !yield(item, nil) {',
    '\t\t\t\t\treturn',
    '\t\t\t\t}',
    '\t\t\t}',
    `\t\t\tif !page.Pagination.HasMore {`,
    '\t\t\t\treturn',
    '\t\t\t}',
    ...next.map((line) => `\t\t\t${line}`),
    '\t\t}',
    '\t}',
    '}',
  ];
}

function entryOf({ method, path, by, body, takesKey, repeatable }: Method): string {
  const given = [
    `method: "${method}"`,
    `path: "${path}"`,
    `by: "${by}"`,
    ...(body ? [`body: "${body.type}"`] : []),
    ...(takesKey ? ['takesKey: true'] : []),
    ...(repeatable ? ['repeatable: true'] : []),
  ];
  return `operation{${given.join(', ')}}`;
}
