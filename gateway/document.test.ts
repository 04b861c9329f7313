import { createHash } from 'node:crypto';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { templates } from '../services/ledger/templates.ts';
import { deliveryHeaders } from '../services/notifier/webhook.ts';
import { contractOf, type Contract } from '../test/contract.ts';
import { reportNames } from './fields.ts';
import { openApiDocument } from './clients/document.ts';
import { startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';

let alone: GatewayOnly;
let contract: Contract;

beforeAll(async () => {
  alone = await startGatewayOnly();
  contract = contractOf(await (await fetch(`${alone.url}/openapi.json`)).json());
});
afterAll(() => alone.stop());

describe('the OpenAPI document', () => {
  test('passes the linter', async () => {
    // Health, figures and this document have no refusals of their own; a redirect has no other answer.
    const rules = { 'operation-4xx-response': 'off', 'operation-2xx-response': 'off' } as const;
    const config = await createConfig({ extends: ['recommended-strict'], rules });
    const faults = await lintFromString({ source: JSON.stringify(contract.document), absoluteRef: '/openapi.json', config });
    expect(faults.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([]);
    expect(contract.document.openapi).toMatch(/^3\.1\./);
    // Clients are generated from it without a server.
    expect(JSON.parse(JSON.stringify(await openApiDocument()))).toEqual(contract.document);
  });

  test('names the accounts of each template', () => {
    const { description } = contract.document.paths['/v1/tenants/{slug}/accounts/setup'].post;
    const [, everywhere, beside] = description.split('\n\n');
    const codesIn = (text: string) => [...text.matchAll(/`([A-Z][A-Z…-]+)`/g)].map(([, code]) => code);
    for (const line of beside.split('\n')) {
      const business = /^- `(\w+)`:/.exec(line)?.[1] as keyof typeof templates;
      const accounts = templates[business].filter(({ isGroup }) => !isGroup);
      const codes = accounts.map(({ code, currency }) => (currency === null ? code : code.replace(new RegExp(`${currency}$`), '…')));
      expect([...codesIn(everywhere), ...codesIn(line)].sort()).toEqual([...new Set(codes)].sort());
    }
    expect(beside.split('\n')).toHaveLength(Object.keys(templates).length);
  });

  test('has a webhook for each event type, with headers and bodies of deliveries', () => {
    const { webhooks } = contract.document;
    expect(Object.keys(webhooks).sort()).toEqual([...contract.document.components.schemas.WebhookEventType.enum].sort());
    const { operationId, parameters, requestBody, responses } = webhooks['balance.updated'].post;
    expect(operationId).toBe('onBalanceUpdated');
    expect(parameters.filter((each: any) => each.required !== true).map((each: any) => each.name)).toEqual(['traceparent']);
    expect(Object.keys(responses)).toEqual(['2XX', 'default']);
    const { BalanceUpdatedData: of, Balance: balance } = contract.document.components.schemas;
    expect(of.properties.previous_balance.pattern).toBe(balance.properties.balance.pattern);
    const [event, test] = ['BalanceUpdatedEvent', 'TestEvent'].map((name) => ({ $ref: `#/components/schemas/${name}` }));
    expect(requestBody.content['application/json'].schema).toEqual({ anyOf: [event, test] });
    // A test may have any type: only apart from it do events narrow by theirs.
    const { LiveWebhookEvent: live } = contract.document.components.schemas;
    expect(Object.keys(live.discriminator.mapping)).toEqual(Object.keys(webhooks).filter((type) => type !== 'test.webhook'));
    expect(live.oneOf.map(({ $ref }: { $ref: string }) => $ref)).toEqual(Object.values(live.discriminator.mapping));
    const signed = { id: 'evt_1', timestamp: 1, body: Buffer.from('{}') };
    const sent = deliveryHeaders(['secret'], signed, { id: 'wh_delivery_1', eventType: 'balance.updated', attempt: 1, traceparent: '00' });
    const { 'content-type': type, 'user-agent': agent, ...ours } = sent;
    expect([type, agent]).toEqual(['application/json', 'Ledger-Webhooks/1']);
    expect(parameters.map(({ name }: { name: string }) => name.toLowerCase())).toEqual(Object.keys(ours));
  });

  test('has every route that the specification and its decisions name', () => {
    expect(contract.operations.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(
      [
        // Users.
        'POST /v1/auth/register',
        'POST /v1/auth/login',
        'POST /v1/auth/refresh',
        'POST /v1/auth/logout',
        'GET /v1/user',
        // Email and password.
        'POST /v1/auth/password/change',
        'POST /v1/auth/email/send',
        'POST /v1/auth/email/verify',
        'POST /v1/auth/password/forgot',
        'POST /v1/auth/password/reset',
        // Second factor.
        'POST /v1/auth/totp',
        'POST /v1/auth/totp/confirm',
        'DELETE /v1/auth/totp',
        // Identity providers.
        'GET /v1/auth/oidc/{provider}/start',
        'GET /v1/auth/oidc/{provider}/callback',
        'POST /v1/auth/oidc/token',
        'POST /v1/auth/oidc/{provider}/link',
        // Tenants.
        'GET /v1/tenants',
        'POST /v1/tenants',
        'PATCH /v1/tenants/{tenant_id}',
        // Keys.
        'GET /v1/tenants/{tenant_id}/api-keys',
        'POST /v1/tenants/{tenant_id}/api-keys',
        'DELETE /v1/tenants/{tenant_id}/api-keys/{key_id}',
        'POST /v1/tenants/{tenant_id}/api-keys/{key_id}/rotate',
        'POST /v1/tenants/{tenant_id}/access',
        // Members.
        'GET /v1/tenants/{tenant_id}/members',
        'PATCH /v1/tenants/{tenant_id}/members/{user_id}',
        'DELETE /v1/tenants/{tenant_id}/members/{user_id}',
        'GET /v1/tenants/{tenant_id}/invitations',
        'POST /v1/tenants/{tenant_id}/invitations',
        'DELETE /v1/tenants/{tenant_id}/invitations/{invitation_id}',
        'POST /v1/invitations/accept',
        // States.
        'POST /v1/tenants/{tenant_id}/suspend',
        'POST /v1/tenants/{tenant_id}/resume',
        'POST /v1/tenants/{tenant_id}/close',
        'POST /v1/tenants/{tenant_id}/reopen',
        'POST /v1/tenants/{tenant_id}/import',
        // Audit.
        'GET /v1/user/audit',
        'GET /v1/tenants/{tenant_id}/audit',
        // Ledger.
        'POST /v1/tenants/{slug}/accounts/setup',
        'GET /v1/tenants/{slug}/accounts/hierarchy',
        'GET /v1/tenants/{slug}/accounts',
        'POST /v1/tenants/{slug}/accounts',
        'POST /v1/tenants/{slug}/accounts/batch',
        'GET /v1/tenants/{slug}/accounts/code/{account_code}',
        'PATCH /v1/tenants/{slug}/accounts/code/{account_code}',
        'GET /v1/tenants/{slug}/accounts/code/{account_code}/balance',
        'GET /v1/tenants/{slug}/accounts/code/{account_code}/balance/daily',
        'GET /v1/tenants/{slug}/accounts/code/{account_code}/balance/history',
        ...['events', 'transactions', 'entries', 'accounts', 'balances', 'everything'].map(
          (what) => `GET /v1/tenants/{slug}/export/${what}`,
        ),
        'GET /v1/tenants/{slug}/transactions/{transaction_id}/proof',
        'GET /v1/tenants/{slug}/events/{sequence}/proof',
        ...['checkpoint', 'consistency', 'keys', 'tile/{level}/{tile}', 'tile/entries/{tile}'].map(
          (what) => `GET /v1/tenants/{slug}/tlog/${what}`,
        ),
        'GET /v1/tenants/{slug}/jobs',
        'GET /v1/tenants/{slug}/jobs/{job_id}',
        'DELETE /v1/tenants/{slug}/jobs/{job_id}',
        'GET /v1/tenants/{slug}/jobs/{job_id}/result',
        'GET /v1/tenants/{slug}/limits',
        'POST /v1/tenants/{slug}/limits',
        'GET /v1/tenants/{slug}/limits/{limit_id}',
        'PATCH /v1/tenants/{slug}/limits/{limit_id}',
        'DELETE /v1/tenants/{slug}/limits/{limit_id}',
        'GET /v1/tenants/{slug}/limits/{limit_id}/usage',
        ...reportNames.flatMap((report) => ['GET', 'POST'].map((method) => `${method} /v1/tenants/{slug}/reports/${report}`)),
        'GET /v1/tenants/{slug}/books',
        'PATCH /v1/tenants/{slug}/books',
        'GET /v1/tenants/{slug}/periods',
        'POST /v1/tenants/{slug}/periods/close',
        'POST /v1/tenants/{slug}/periods/reopen',
        'GET /v1/tenants/{slug}/transactions',
        'POST /v1/tenants/{slug}/transactions',
        'POST /v1/tenants/{slug}/transactions/double-entry',
        'POST /v1/tenants/{slug}/transactions/exchange',
        'POST /v1/tenants/{slug}/transactions/batch',
        'POST /v1/tenants/{slug}/transactions/import',
        'GET /v1/tenants/{slug}/transactions/{transaction_id}',
        'POST /v1/tenants/{slug}/subjects/erase',
        'POST /v1/tenants/{slug}/transactions/{transaction_id}/reverse',
        'POST /v1/tenants/{slug}/transactions/{transaction_id}/redact',
        'GET /v1/tenants/{slug}/holds',
        'POST /v1/tenants/{slug}/holds',
        'GET /v1/tenants/{slug}/holds/{hold_id}',
        'POST /v1/tenants/{slug}/holds/{hold_id}/capture',
        'POST /v1/tenants/{slug}/holds/{hold_id}/void',
        'GET /v1/tenants/{slug}/filters',
        'PUT /v1/tenants/{slug}/filters/{name}',
        'DELETE /v1/tenants/{slug}/filters/{name}',
        'GET /v1/tenants/{slug}/statistics/volume',
        'GET /v1/tenants/{slug}/events',
        'GET /v1/tenants/{slug}/events/stream',
        'GET /v1/tenants/{slug}/webhooks',
        'POST /v1/tenants/{slug}/webhooks',
        'PATCH /v1/tenants/{slug}/webhooks',
        'DELETE /v1/tenants/{slug}/webhooks',
        'GET /v1/tenants/{slug}/webhooks/config',
        'PATCH /v1/tenants/{slug}/webhooks/config',
        'DELETE /v1/tenants/{slug}/webhooks/config',
        'POST /v1/tenants/{slug}/webhooks/secret/rotate',
        'POST /v1/tenants/{slug}/webhooks/test',
        'POST /v1/tenants/{slug}/webhooks/retry',
        'GET /v1/tenants/{slug}/webhooks/{delivery_id}',
        'POST /v1/tenants/{slug}/webhooks/{delivery_id}/retry',
        // Operations.
        'GET /healthz',
        'GET /readyz',
        'GET /metrics',
        'GET /.well-known/jwks.json',
        'GET /openapi.json',
      ].sort(),
    );
  });

  test('shows an example of every request and every answer, and each fits its schema', () => {
    const faults: string[] = [];
    const check = (place: string, pointer: string[], media: any) => {
      const examples = media.example === undefined ? Object.values<any>(media.examples ?? {}).map(({ value }) => value) : [media.example];
      if (examples.length === 0) faults.push(`${place}: no example`);
      const at = [...pointer, 'schema'].map((each) => encodeURIComponent(each.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
      for (const example of examples) faults.push(...contract.fits(`/${at}`, example).map((fault) => `${place}: ${fault}`));
    };
    for (const [type, { post }] of Object.entries<any>(contract.document.webhooks)) {
      const media = post.requestBody.content['application/json'];
      check(type, ['webhooks', type, 'post', 'requestBody', 'content', 'application/json'], media);
      expect(media.example.type).toBe(type);
    }
    for (const { method, path, definition } of contract.operations) {
      const place = ['paths', path, method.toLowerCase()];
      const named = `${method} ${path}`;
      for (const [type, media] of Object.entries(definition.requestBody?.content ?? {})) {
        check(named, [...place, 'requestBody', 'content', type], media);
      }
      for (const [status, answer] of Object.entries<any>(definition.responses)) {
        for (const [type, media] of Object.entries(answer.content)) {
          check(`${named} ${status}`, [...place, 'responses', status, 'content', type], media);
        }
      }
      for (const parameter of definition.parameters ?? []) {
        // What may be left out the page shows and does not send.
        const { example, examples = {} } = parameter;
        // By the names of the body's examples, with one of which the page shows it.
        const bodies = definition.requestBody?.content['application/json']?.examples ?? { example: {} };
        const off = Object.keys(bodies).filter((name) => examples[name]?.['x-disabled'] === true && examples[name].value !== undefined);
        const isShown = parameter.required === true ? example !== undefined : off.length === Object.keys(bodies).length;
        if (!isShown) faults.push(`${named}: no example of ${parameter.name}`);
      }
    }
    expect(faults).toEqual([]);
  });

  test('shows no two requests with one idempotency key', () => {
    const keys = contract.operations.flatMap(({ definition }) =>
      (definition.parameters ?? [])
        .filter(({ name }: { name: string }) => name === 'Idempotency-Key')
        .flatMap(({ examples }: { examples: Record<string, { value: string }> }) => Object.values(examples).map(({ value }) => value)),
    );
    expect(keys.length).toBeGreaterThan(2);
    expect(new Set(keys).size).toBe(keys.length);
  });

  test('has patterns that the regular expressions of other languages support', () => {
    // Python's have no `\\p{…}`, Go's look neither ahead nor back.
    expect(JSON.stringify(contract.document)).not.toMatch(/"pattern":"[^"]*(\\\\p\{|\(\?[=!<])/i);
  });

  test('gives every growing number the format int64', () => {
    const grows = /^(sequence|after_sequence|known_sequence|version|created|bytes|redacted_sequence|size|old|new)$/;
    const faults: string[] = [];
    const walk = (place: string, name: string, schema: any): void => {
      if (typeof schema !== 'object' || schema === null) return;
      if ([schema.type].flat().includes('integer') && grows.test(name) !== (schema.format === 'int64')) faults.push(`${place}: ${name}`);
      for (const [key, each] of Object.entries<any>(schema.properties ?? {})) walk(place, key, each);
      walk(place, name, schema.items);
    };
    for (const [name, schema] of Object.entries(contract.document.components.schemas)) walk(name, name, schema);
    for (const { id, definition } of contract.operations) {
      for (const { name, schema } of definition.parameters ?? []) walk(id, name, schema);
      walk(id, 'body', definition.requestBody?.content['application/json']?.schema);
      for (const { content } of Object.values<any>(definition.responses)) walk(id, 'answer', content['application/json']?.schema);
    }
    expect(faults).toEqual([]);
  });

  test('has no private extensions', () => {
    const words = new Set(JSON.stringify(contract.document).match(/"x-[a-z-]+"(?=:)/g));
    expect([...words].sort()).toEqual(['"x-cli"', '"x-disabled"', '"x-error-codes"', '"x-idempotent"', '"x-internal"', '"x-scope"']);
  });

  // Each of these is valid, and had one of the usual generators of clients make what does not compile, or does not take the answer.
  test('avoids schemas that client generators are known to misread', () => {
    const faults: string[] = [];
    const words = new Map<string, string[]>();
    const walk = (place: string, schema: any): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const isOfNothing = [schema.type].flat().includes('object') && !schema.properties && schema.additionalProperties === undefined;
      if (isOfNothing) faults.push(`${place}: an object of which nothing is said`);
      if (typeof schema.const === 'boolean') faults.push(`${place}: a flag that is one value`);
      if (schema.enum?.includes(null)) faults.push(`${place}: null is one of the words`);
      if (schema.type === 'null' && !place.includes('.anyOf.')) faults.push(`${place}: nothing but null`);
      if (schema.enum?.length > 1) words.set(schema.enum.join(), [...(words.get(schema.enum.join()) ?? []), place]);
      for (const [key, each] of Object.entries(schema)) if (key !== 'example' && key !== 'examples') walk(`${place}.${key}`, each);
    };
    walk('', contract.document.components.schemas);
    const { paths, webhooks } = contract.document;
    walk('', paths);
    expect(faults).toEqual([]);
    // Each is a file.
    const tagsOf = (of: object) => Object.values(of).flatMap((each) => Object.values<any>(each).flatMap(({ tags }) => tags as string[]));
    expect(tagsOf(paths).filter((tag) => tagsOf(webhooks).includes(tag))).toEqual([]);
    expect([...words.values()].filter(({ length }) => length > 1)).toEqual([]);
  });

  test('has no schema that no route uses', () => {
    const reached = new Set<string>();
    const reach = (from: unknown) => {
      for (const [, name] of JSON.stringify(from).matchAll(/#\/components\/schemas\/(\w+)/g)) {
        if (reached.has(name!)) continue;
        reached.add(name!);
        reach(contract.document.components.schemas[name!]);
      }
    };
    reach(contract.document.paths);
    expect(Object.keys(contract.document.components.schemas).filter((name) => !reached.has(name))).toEqual([]);
  });

  test('has no two names that differ only in case', () => {
    const { schemas, securitySchemes, headers } = contract.document.components;
    const names = [schemas, securitySchemes, headers].flatMap((each) => Object.keys(each)).map((name) => name.toLowerCase());
    expect(names.length).toBe(new Set(names).size);
  });

  test('documents the headers of every answer', () => {
    const bare = contract.operations.flatMap(({ id, tag, definition }) =>
      Object.entries<any>(definition.responses)
        .filter(
          ([status, answer]) =>
            !answer.headers['X-Request-Id'] || (status === '5XX' && tag !== 'Operations' && !answer.headers['Retry-After']),
        )
        .map(([status]) => `${id} ${status}`),
    );
    expect(bare).toEqual([]);
  });
});

describe('/docs', () => {
  test('needs no other server', async () => {
    const page = await fetch(`${alone.url}/docs`);
    const html = await page.text();
    expect(page.status).toBe(200);
    expect(html).not.toMatch(/(src|href)="https?:/);
    const script = /<script src="([^"]+)"/.exec(html)?.[1];
    const answer = await fetch(new URL(script ?? '', page.url));
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toContain('javascript');
    expect((await answer.text()).length).toBeGreaterThan(100_000);
    expect(html).toContain('/openapi.json');
  });

  test('runs only its own scripts, contacts only this server, and sends no referrer', async () => {
    const page = await fetch(`${alone.url}/docs/`);
    const html = await page.text();
    const [inline, ...more] = [...html.matchAll(/<script type="text\/javascript">([^]*?)<\/script>/g)].map(([, script = '']) => script);
    expect(more).toEqual([]);
    const digest = createHash('sha256')
      .update(inline ?? '')
      .digest('base64');
    expect(page.headers.get('content-security-policy')?.split('; ')).toEqual([
      `default-src 'none'`,
      `script-src 'self' 'sha256-${digest}'`,
      `style-src 'self' 'unsafe-inline'`,
      `img-src 'self' data:`,
      `font-src 'self' data:`,
      `connect-src 'self'`,
      `frame-ancestors 'none'`,
      `base-uri 'none'`,
      `form-action 'none'`,
    ]);
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    const script = new URL(/<script src="([^"]+)"/.exec(html)?.[1] ?? '', page.url);
    for (const url of [`${alone.url}/docs`, script]) {
      const { headers, body } = await fetch(url, { redirect: 'manual' });
      await body?.cancel();
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; script-src 'self'; /);
      expect(headers.get('referrer-policy')).toBe('no-referrer');
    }
  });

  test('redirects to its page, and answers unknown paths in the envelope', async () => {
    const redirect = await fetch(`${alone.url}/docs`, { redirect: 'manual' });
    const { status, headers } = redirect;
    expect([status, headers.get('location'), headers.get('content-type'), await redirect.text()]).toEqual([301, '/docs/', null, '']);
    const missing = await fetch(`${alone.url}/docs/nothing`);
    expect([missing.status, await missing.json()]).toMatchObject([404, { success: false, code: 'route_not_found' }]);
  });
});
