// Roles of a tenant's members, scopes of API keys, and which scopes a role has.

/** Permissions of an API key. */
export const scopes = [
  'accounts:read',
  'accounts:write',
  'balances:read',
  'transactions:read',
  'transactions:write',
  'webhooks:manage',
  'reports:read',
  'limits:override',
  'periods:close',
  'periods:reopen',
  'reconciliations:manage',
  'personal:read',
  'personal:manage',
] as const;

/** One of the scopes. */
export type Scope = (typeof scopes)[number];

/** Roles of members; each may do what the next one may. */
export const roles = ['owner', 'admin', 'accountant', 'viewer'] as const;

/** One of the roles. */
export type Role = (typeof roles)[number];

const notOfAccountants: readonly Scope[] = ['webhooks:manage', 'periods:reopen', 'personal:manage'];

const scopesByRole: Record<Role, readonly Scope[]> = {
  owner: scopes,
  admin: scopes,
  accountant: scopes.filter((scope) => !notOfAccountants.includes(scope)),
  viewer: scopes.filter((scope) => scope.endsWith(':read') && scope !== 'personal:read'),
};

/** The scopes that a member with this role may have. */
export function scopesOf(role: Role): readonly Scope[] {
  return scopesByRole[role];
}

/** Whether a role may do what `needed` may; one that is unknown may do nothing. */
export function isAtLeast(role: Role, needed: Role): boolean {
  return roles.includes(role) && roles.indexOf(role) <= roles.indexOf(needed);
}
