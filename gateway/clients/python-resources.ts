// Writes the methods of the Python client, each to call and to await.
import { bodyName, nameOf, nounsOf, type ClientDocument, type Method, type Parameter } from './operations.ts';

const keywords = new Set(['from', 'import', 'in', 'is', 'class', 'global', 'lambda', 'pass', 'async', 'await', 'with', 'as']);
const safe = (name: string): string => (keywords.has(name) ? `${name}_` : name);
const snakeCase = (verb: string): string => safe(verb.replaceAll('-', '_'));
const className = (noun: string): string => noun.charAt(0).toUpperCase() + noun.slice(1);

/** The text of `resources.py`. */
export function pythonResources(document: ClientDocument): string {
  const nouns = nounsOf(document);
  const classes = ['', 'Async'].flatMap((prefix) => [
    ...nouns.map(([noun, methods]) => classOf(noun, methods, prefix)),
    [
      `class ${prefix}Resources:`,
      ...nouns.map(([noun]) => `    ${noun}: ${prefix}${className(noun)}`),
      '',
      `    def _add_resources(self, call: Callable[..., Any]) -> None:`,
      ...nouns.map(([noun]) => `        self.${noun} = ${prefix}${className(noun)}(call)`),
    ].join('\n'),
  ]);
  return `"""Every operation of the API by noun and verb. Made from the OpenAPI document: do not edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, overload

import httpx

from . import models
from .calls import AsyncListing, Listing, Operation

${classes.join('\n\n\n')}
`;
}

function classOf(noun: string, methods: Method[], prefix: string): string {
  return [
    `class ${prefix}${className(noun)}:`,
    `    def __init__(self, call: Callable[..., Any]) -> None:`,
    `        self._call = call`,
    ...methods.flatMap((method) => ['', ...methodOf(method, prefix)]),
  ].join('\n');
}

function typeOf({ schema, required = false }: Parameter): string {
  const name = nameOf(schema);
  const words: Record<string, string> = { integer: 'int', boolean: 'bool', array: 'list[str]' };
  const type = name === '' ? (words[String(schema.type)] ?? 'str') : `models.${name}`;
  return required ? type : `${type} | None = None`;
}

function methodOf(method: Method, prefix: string): string[] {
  const { parameters, query, body, answer, paging, takesKey } = method;
  const own =
    (body?.type === 'application/json' ? `models.${bodyName(method.id)} | Mapping[str, Any]` : 'str | bytes') +
    (body?.required === true ? '' : ' | None = None');
  const named = [
    ...query.filter((each) => each.required === true).map((each) => `${safe(each.name)}: ${typeOf(each)}`),
    ...query.filter((each) => each.required !== true).map((each) => `${safe(each.name)}: ${typeOf(each)}`),
    ...(takesKey ? ['idempotency_key: str | None = None'] : []),
    'timeout: float | None = None',
  ];
  const before = ['self', ...parameters.map((each) => `${each}: str`), ...(body ? [`body: ${own}`] : []), '*'];
  const data = answer.kind === 'response' ? 'httpx.Response' : answer.schema === '' ? 'dict[str, Any]' : `models.${answer.schema}`;
  const type = paging ? `${prefix}Listing[${data}, ${paging.item === '' ? 'Any' : `models.${paging.item}`}]` : data;
  const define = `    ${prefix === 'Async' && !paging ? 'async def' : 'def'} ${snakeCase(method.verb)}`;
  // One parameter decides what is answered: its type where that is something else, and where it is not.
  const overloads = (name: string, other: string, usual: string, otherType: string): string[] =>
    [
      [`${name}: Literal[${other}]`, otherType],
      [`${name}: Literal[${usual}] | None = None`, type],
    ].flatMap(([decisive = '', answered = '']) => {
      const rest = named.filter((each) => !each.startsWith(`${name}:`));
      const needed = [...rest, decisive].filter((each) => !each.includes(' = '));
      const optional = [...rest, decisive].filter((each) => each.includes(' = '));
      return ['    @overload', `${define}(${[...before, ...needed, ...optional].join(', ')}) -> ${answered}: ...`];
    });
  const file = prefix === 'Async' && paging ? 'Awaitable[httpx.Response]' : 'httpx.Response';
  const typed = [
    ...(answer.tried === undefined ? [] : overloads('dry_run', 'True', 'False', `models.${answer.tried}`)),
    ...(answer.hasFiles ? overloads('format', "'csv', 'xlsx', 'pdf'", "'json'", file) : []),
  ];
  const returned = typed.length > 0 ? 'Any' : type;
  const values = query.map((each) => `"${each.name}": ${safe(each.name)}`).join(', ');
  const given = [
    ...[entryOf(method), `[${parameters.join(', ')}]`, body ? 'body' : 'None', `{${values}}`],
    ...(answer.kind === 'response' || answer.schema === '' ? [] : [`parse=models.${answer.schema}.from_dict`]),
    ...(answer.tried === undefined ? [] : [`parse_tried=models.${answer.tried}.from_dict`]),
    ...(takesKey ? ['idempotency_key=idempotency_key'] : []),
    'timeout=timeout',
  ];
  return [
    ...typed,
    `${define}(${[...before, ...named].join(', ')}) -> ${returned}:`,
    `        """${method.doc.replaceAll('\\', '\\\\').replaceAll('"""', "'''")}"""`,
    `        return ${prefix === 'Async' && !paging ? 'await ' : ''}self._call(${given.join(', ')})`,
  ];
}

function entryOf({ method, path, by, body, answer, takesKey, repeatable, paging }: Method): string {
  const given = [
    `"${method}"`,
    `"${path}"`,
    `"${by}"`,
    ...(body ? [`body="${body.type}"`] : []),
    ...(answer.kind === 'data' ? [] : [`answer="${answer.kind}"`]),
    ...(takesKey ? ['takes_key=True'] : []),
    ...(repeatable ? ['repeatable=True'] : []),
    ...(paging ? [`paging=("${paging.by}", "${paging.items}")`] : []),
  ];
  return `Operation(${given.join(', ')})`;
}
