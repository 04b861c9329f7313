// The identity providers of the setting `OIDC_PROVIDERS`.
import { BadSetting } from '../../platform/settings.ts';

/** An identity provider, by the name in its routes. */
export interface OidcProvider {
  name: string;
  /** https, or http on this machine. */
  issuer: URL;
  clientId: string;
  clientSecret: string;
  scopes: string[];
}

const members = ['issuer', 'client_id', 'client_secret', 'scopes'];

/** The providers of the setting's text by name. Throws {@link BadSetting}, whose message has no value of the text but a name. */
export function oidcProviders(text: string | undefined): ReadonlyMap<string, OidcProvider> {
  const bad = (problem: string) => new BadSetting('OIDC_PROVIDERS', problem);
  if (text === undefined) return new Map();
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    // Node's message repeats a part of the text.
    throw bad('is not valid JSON');
  }
  if (!isObject(given)) throw bad('must be an object of providers by name');
  return new Map(
    Object.entries(given).map(([name, provider]) => {
      if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(name)) {
        throw bad(`names a provider ${JSON.stringify(name.slice(0, 64))}: a name has 1 to 32 lower-case letters, digits and hyphens`);
      }
      return [name, providerOf(name, provider, (problem) => bad(`of ${name} ${problem}`))];
    }),
  );
}

function providerOf(name: string, given: unknown, bad: (problem: string) => BadSetting): OidcProvider {
  if (!isObject(given)) throw bad('must be an object with issuer, client_id and client_secret');
  if (Object.keys(given).some((member) => !members.includes(member))) throw bad(`has a member other than ${members.join(', ')}`);
  const text = (member: string): string => {
    const value = given[member];
    if (typeof value !== 'string' || value === '') throw bad(`needs ${member}, a text`);
    return value;
  };
  const issuer = URL.canParse(text('issuer')) ? new URL(text('issuer')) : undefined;
  // With a path to the discovery document itself the issuer would not be checked.
  if (
    !issuer ||
    !isAllowed(issuer) ||
    issuer.username + issuer.password + issuer.search + issuer.hash !== '' ||
    issuer.pathname.includes('/.well-known/')
  ) {
    throw bad('needs an issuer that is an https address (http on a loopback host), without query');
  }
  const scopes = given['scopes'] ?? ['openid', 'email', 'profile'];
  if (
    !Array.isArray(scopes) ||
    !scopes.every((scope) => typeof scope === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope)) ||
    !scopes.includes('openid')
  ) {
    throw bad('needs scopes that are a list of texts without blanks, openid among them');
  }
  return { name, issuer, clientId: text('client_id'), clientSecret: text('client_secret'), scopes: scopes as string[] };
}

function isAllowed({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && /^(localhost|127\.[0-9.]+|\[::1\])$/.test(hostname));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
