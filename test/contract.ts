// Checks real answers against the gateway's own OpenAPI document.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { startCluster, type Answer, type Cluster, type ClusterOptions, type RestOptions } from './cluster.ts';
import { sharedCluster } from './shared-cluster.ts';

/** An operation of the document. */
export interface Operation {
  method: string;
  /** With parameters in braces. */
  path: string;
  id: string;
  tag: string;
  /** Empty: no credential is needed. */
  security: 'userToken' | 'apiKeyToken' | '';
  scope: string | undefined;
  /** The first example of the body, if it takes one. */
  body: Record<string, unknown> | undefined;
  bodyRequired: boolean;

  definition: any;
}

/** The document, ready to check answers. */
export interface Contract {
  document: any;
  operations: Operation[];
  /** What is wrong with an answer, or an empty list. */
  faults(method: string, path: string, answer: Answer): string[];
  /** Whether a value fits the schema at a JSON pointer of the document. */
  fits(pointer: string, value: unknown): string[];
}

/** Reads the document of a gateway. */
export async function readContract(url: string): Promise<Contract> {
  const answer = await fetch(`${url}/openapi.json`);
  return contractOf(await answer.json());
}

/** {@link Cluster.rest} that throws where an answer is not as the document says. */
export function checkedRest(cluster: Cluster, contract: Contract): Cluster['rest'] {
  return async (method: string, path: string, options?: RestOptions) => {
    const answer = await cluster.rest(method, path, options);
    const faults = contract.faults(method, path.split('?')[0] ?? '', answer);
    if (faults.length > 0) throw new Error(`${method} ${path} → ${answer.status} ${JSON.stringify(answer.body)}: ${faults.join('; ')}`);
    return answer;
  };
}

/** A cluster whose answers are all checked by {@link checkedRest}. */
export interface CheckedCluster extends Cluster {
  contract: Contract;
}

/** The worker's shared cluster, or a new one with these options. */
export async function startCheckedCluster(options?: ClusterOptions): Promise<CheckedCluster> {
  const cluster = await (options === undefined ? sharedCluster() : startCluster(options));
  const contract = await readContract(cluster.url);
  return { ...cluster, contract, rest: checkedRest(cluster, contract) };
}

// Response headers that the document must list wherever they occur.
const documentedHeaders = ['idempotent-replayed', 'ratelimit', 'ratelimit-policy', 'retry-after', 'www-authenticate'];

const anyEntry = (field: unknown) =>
  String(field)
    .replaceAll(/\[\d+\]/g, '[n]')
    .replace(/\brequire(\[n\])?\.(?!account_code).*/, 'require');

/** A contract over a document. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- the document as it is
export function contractOf(document: any): Contract {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema(document, 'document');
  const operations: Operation[] = Object.entries<Record<string, any>>(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, definition]): Operation => {
      const examples = definition.requestBody?.content['application/json']?.examples as Record<string, { value: object }> | undefined;
      return {
        method: method.toUpperCase(),
        path,
        id: definition.operationId,
        tag: definition.tags[0],
        security: (Object.keys(definition.security[0] ?? {})[0] ?? '') as Operation['security'],
        scope: definition['x-scope'],
        body: Object.values(examples ?? {})[0]?.value as Record<string, unknown> | undefined,
        bodyRequired: definition.requestBody?.required === true,
        definition,
      };
    }),
  );
  const validators = new Map<string, ValidateFunction>();
  const fits = (pointer: string, value: unknown): string[] => {
    const validate = validators.get(pointer) ?? ajv.compile({ $ref: `document#${pointer}` });
    validators.set(pointer, validate);
    return validate(value) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath || 'the body'} ${error.message ?? ''}`);
  };
  const find = (method: string, path: string) =>
    operations
      .filter((each) => each.method === (method === 'HEAD' ? 'GET' : method))
      .sort((one, other) => one.path.split('{').length - other.path.split('{').length)
      .find((each) => new RegExp(`^${each.path.replaceAll(/\{[^}]+\}/g, '[^/]+').replaceAll('.', '\\.')}/?$`).test(path));
  return {
    document,
    operations,
    fits,
    faults(method, path, { status, headers, body }) {
      const faults: string[] = [];
      if (!headers.get('x-request-id')) faults.push('no X-Request-Id');
      const needed = { 401: 'www-authenticate', 403: 'www-authenticate', 405: 'allow', 429: 'retry-after', 503: 'retry-after' } as Record<
        number,
        string
      >;
      const header = needed[status];
      if (header !== undefined && body?.success === false && !headers.get(header)) faults.push(`no ${header}`);
      const operation = find(method, path);
      if (!operation || status === 405 || body?.code === 'route_not_found') {
        return body?.success === false ? [...faults, ...fits('/components/schemas/Problem', body)] : [...faults, 'not in the document'];
      }
      const { responses, 'x-error-codes': errorCodes } = operation.definition;
      const isError = !(status in responses);
      const documentedStatus = isError ? `${String(status).charAt(0)}XX` : String(status);
      const documented = responses[documentedStatus];
      const codes: string[] | undefined = errorCodes[status];
      if (!documented || (isError && !codes)) return [...faults, `status ${status} is not in the document`];
      // A redirect has no body.
      if (Object.keys(documented.content).length === 0) return body === '' ? faults : [...faults, 'a body that is not in the document'];
      const offered = Object.entries<any>(documented.content);
      // The first is what is answered unless the request asks for another one.
      const [type = '', media] = offered.find(([each]) => headers.get('content-type')?.startsWith(each)) ?? offered[0] ?? [];
      if (type !== '*/*' && headers.get('content-type')?.startsWith(type) !== true) faults.push(`not ${type}`);
      if (body?.success === false && !codes?.includes(body.code)) faults.push(`code ${String(body.code)} is not in the document`);
      // A 422 names the same field as one of its examples.
      const examples = Object.values<any>(media.examples ?? {}).filter(({ value }) => value.code === body?.code && value.details);
      const named = anyEntry(body?.details?.field);
      const documentedFields = examples.map(({ value }) => anyEntry(value.details?.field));
      if (status === 422 && !documentedFields.includes(named)) faults.push(`${named} is named, in the document ${documentedFields.join()}`);
      const listed = Object.keys(documented.headers).map((name) => name.toLowerCase());
      for (const name of documentedHeaders)
        if (headers.has(name) && !listed.includes(name)) faults.push(`header ${name} is not in the document`);
      if (method === 'HEAD') return faults;
      const at = [operation.path, operation.method.toLowerCase(), 'responses', documentedStatus, 'content', type, 'schema'];
      return [
        ...faults,
        ...fits(`/paths/${at.map((each) => encodeURIComponent(each.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`, body),
      ];
    },
  };
}
