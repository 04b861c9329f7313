// Sends requests to a gateway, and makes users, tenants and keys by them.
import { randomBytes } from 'node:crypto';
import { newPassword } from '../deploy/local/secrets.ts';
import { scopes as everyScope } from '../services/platform/roles.ts';
import type { Cluster } from './cluster.ts';

/** The calls of a cluster's gateway, over connections of `dispatcher` where one is given. */
export function clientOf(
  url: string,
  dispatcher?: NonNullable<RequestInit['dispatcher']>,
): Pick<Cluster, 'rest' | 'signUp' | 'tenant' | 'apiKey'> {
  const rest: Cluster['rest'] = async (method, path, { key, body, headers, signal } = {}) => {
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const answer = await fetch(url + path, {
      method,
      headers: {
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: raw ? (body as string) : JSON.stringify(body) }),
      ...(signal && { signal }),
      ...(dispatcher && { dispatcher }),
    });
    const text = await answer.text();
    const json = answer.headers.get('content-type')?.includes('/json') === true && text !== '';
    return { status: answer.status, headers: answer.headers, body: json ? JSON.parse(text) : text };
  };
  const made = async (path: string, key: string | undefined, body: unknown) => {
    const answer = await rest('POST', path, { body, ...(key !== undefined && { key }) });
    if (answer.status > 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  };
  const signUp: Cluster['signUp'] = async () => {
    const email = `user-${randomBytes(6).toString('hex')}@example.com`;
    const password = newPassword();
    await made('/v1/auth/register', undefined, { email, password, first_name: 'Ada', last_name: 'Lovelace' });
    const { token, user } = await made('/v1/auth/login', undefined, { email, password });
    return { id: user.id, email, password, token };
  };
  return {
    rest,
    signUp,
    tenant: async ({ person, businessType = 'wallet' } = {}) => {
      const owner = person ?? (await signUp());
      const slug = `tenant-${randomBytes(6).toString('hex')}`;
      const { tenant } = await made('/v1/tenants', owner.token, { name: slug, slug, business_type: businessType });
      return { id: tenant.id, slug, owner };
    },
    apiKey: async (tenant, scopes = [...everyScope]) => {
      const data = await made(`/v1/tenants/${tenant.id}/api-keys`, tenant.owner.token, { name: 'test', scopes });
      return data.api_key.key;
    },
  };
}
