// Creates the accounts that an import needs, below groups that follow from their codes: `users:1` is below `users`.
import type { CreateAccountRequest, Ledger } from '../../clients/typescript/ledger.ts';
import { accountTypes, type AccountType, type Target } from './accounts.ts';

const maxAccounts = 1_000;

/** An account of the ledger, as far as an import looks at it. */
export interface Existing {
  type: string;
  is_group: boolean;
  status: string;
}

/** An account that is still to be made. */
export type NewTarget = Target & { type: AccountType };

/** The accounts to create, groups first. */
export function plannedAccounts(
  targets: readonly NewTarget[],
  existing: ReadonlyMap<string, Existing>,
  metadata: ReadonlyMap<string, Record<string, unknown>>,
): CreateAccountRequest[] {
  const codes = new Set(targets.map(({ code }) => code));
  const groups = new Map<string, CreateAccountRequest>();
  const typesBelow = (code: string) => new Set(targets.filter((each) => each.code.startsWith(`${code}:`)).map(({ type }) => type));
  const isPure = new Map<string, boolean>();
  const parentOf = (code: string, type: AccountType): string | undefined => {
    const above = code.slice(0, Math.max(0, code.lastIndexOf(':')));
    if (above === '') return undefined;
    const known = existing.get(above);
    if (known?.is_group === true && known.type === type) return above;
    if (!isPure.has(above)) isPure.set(above, typesBelow(above).size === 1);
    if (known || codes.has(above) || isPure.get(above) !== true) return parentOf(above, type);
    if (!groups.has(above)) groups.set(above, { account_code: above, name: above, type, is_group: true, ...parent(parentOf(above, type)) });
    return above;
  };
  const accounts = targets.map(({ code, name, type }): CreateAccountRequest => {
    const facts = metadata.get(name);
    return {
      account_code: code,
      name: [...name].slice(0, 255).join(''),
      type,
      ...(facts && { metadata: facts }),
      ...parent(parentOf(code, type)),
    };
  });
  return [...groups.values(), ...accounts];
}

const parent = (code: string | undefined) => (code === undefined ? {} : { parent_code: code });

/** Creates accounts, those that are there already stay; answers how many are new. */
export async function createAccounts({ accounts }: Ledger, planned: readonly CreateAccountRequest[]): Promise<number> {
  let created = 0;
  for (let from = 0; from < planned.length; from += maxAccounts) {
    const answer = await accounts.createMany({ accounts: planned.slice(from, from + maxAccounts), on_existing: 'skip' });
    created += answer.created;
  }
  return created;
}

/** Whether a text is a type of accounts. */
export const isAccountType = (text: string | undefined): text is AccountType =>
  (accountTypes as readonly (string | undefined)[]).includes(text);
