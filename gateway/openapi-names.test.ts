// Names in the OpenAPI document, from which generators make types and commands.
import { contractOf } from '../test/contract.ts';
import { openApiDocument } from './clients/document.ts';
import { verbs } from './openapi-names.ts';

const contract = contractOf(await openApiDocument());

describe('the OpenAPI document', () => {
  test('has a name for every object: bodies are requests, answers results, errors problems', () => {
    const faults: string[] = [];
    const { schemas } = contract.document.components;
    const anonymous = (place: string, schema: any, isNamed = false): void => {
      if (typeof schema !== 'object' || schema === null) return;
      if (!isNamed && typeof schema.properties === 'object') faults.push(`${place}: no name in openapi-names.ts`);
      for (const [key, each] of Object.entries<any>(schema))
        if (!/^examples?$/.test(key)) anonymous(`${place}.${key}`, each, key === 'properties');
    };
    for (const [name, schema] of Object.entries(schemas)) {
      anonymous(name, schema, true);
      // Go's generator makes such types itself.
      if (/(Response|Params|RequestBody)$/.test(name)) faults.push(`${name}: taken by generators`);
    }
    for (const { id, definition } of contract.operations) {
      const pascal = id.charAt(0).toUpperCase() + id.slice(1);
      const body = definition.requestBody?.content['application/json']?.schema;
      if (body && body.$ref !== `#/components/schemas/${pascal}Request`) faults.push(`${id}: body`);
      for (const [status, { content }] of Object.entries<any>(definition.responses)) {
        const { schema } = content['application/json'] ?? {};
        const wanted = /^[45]XX$/.test(status) ? /\/Problem$/ : /\/\w+Result$/;
        if (schema && id !== 'getOpenApi' && !wanted.test(schema.$ref)) faults.push(`${id} ${status}: ${JSON.stringify(schema)}`);
      }
      expect(Object.keys(definition.responses).filter((status) => !/^(2..|302|503|4XX|5XX)$/.test(status))).toEqual([]);
    }
    for (const [name, { properties }] of Object.entries<any>(schemas)) {
      if (name.endsWith('Result') && properties.data && !(properties.data.$ref ?? 'Data').endsWith('Data')) faults.push(`${name}: data`);
    }
    expect(faults).toEqual([]);
  });

  test('has a noun and a verb for every operation, and all error codes by status', () => {
    const named = contract.operations.filter(({ definition }) => definition['x-internal'] !== true);
    const names = named.map(({ id, definition }) => [id, `${definition['x-cli']?.noun} ${definition['x-cli']?.verb}`]);
    expect(names.filter(([, name]) => !/^[a-z]+ [a-z-]+$/.test(name!))).toEqual([]);
    expect(new Set(names.map(([, name]) => name)).size).toBe(names.length);
    expect(
      Object.values(verbs)
        .flatMap((of) => Object.values(of))
        .sort(),
    ).toEqual(named.map(({ id }) => id).sort());
    expect(contract.operations.filter(({ definition }) => definition['x-internal'] === true).map(({ id }) => id)).toEqual([
      'updateWebhooks',
      'deleteWebhooks',
    ]);
    for (const { definition } of contract.operations) {
      const { '4XX': client, '5XX': server } = definition.responses;
      const examples = [client, server].flatMap((each) => Object.values<any>(each?.content['application/json'].examples ?? {}));
      const codes = Object.values<string[]>(definition['x-error-codes']).flat();
      expect(new Set(examples.map(({ value }) => value.code))).toEqual(new Set(codes));
      expect(codes.filter((code) => !contract.document.components.schemas.ErrorCode.enum.includes(code))).toEqual([]);
    }
  });
});
