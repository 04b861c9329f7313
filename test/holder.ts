// A tenant with accounts to hold money of, and the calls of its holds.
import type { Answer, Cluster } from './cluster.ts';
import { line, newWallet, type Customer, type Line } from './customer.ts';

/** Fields of an answer. */
export type Fields = Record<string, any>;

/** A tenant that holds money. */
export interface Holder {
  customer: Customer;
  /** A new account that can't go below zero, with so much USD. */
  newPayer: (amount?: string) => Promise<string>;
  hold: (payer: string, amount: string, more?: Fields, query?: string) => Promise<Answer>;
  /** A hold that was made. */
  held: (payer: string, amount: string, more?: Fields) => Promise<Fields>;
  capture: (hold: Fields, body?: Fields, query?: string) => Promise<Answer>;
  release: (hold: Fields, body?: Fields, query?: string) => Promise<Answer>;
  read: (hold: Fields) => Promise<Fields>;
  balance: (code: string) => Promise<Fields>;
  /** Balance, available and pending debits of an account. */
  sums: (code: string) => Promise<[balance: string, available: string, pending: string]>;
}

let count = 0;

/** A key that no other request of this process has. */
export const newKey = (): string => `hold-key-${(count += 1)}`;

/** Entries that take an amount out of an account. */
export const out = (payer: string, amount: string): Line[] => [line(payer, 'debit', amount), line('SETTLEMENT-USD', 'credit', amount)];

/** What a request was refused for. */
export const refusal = ({ status, body }: Answer): [number, string, Fields | undefined] => [status, body.code, body.details];

/** Amount, captured and remaining of each line of a hold. */
export const lines = ({ entries }: Fields): string[][] =>
  entries.map(({ amount, captured, remaining }: Fields) => [amount, captured, remaining]);

/** A new tenant that holds money. */
export async function newHolder(cluster: Cluster): Promise<Holder> {
  const customer = await newWallet(cluster);
  const hold: Holder['hold'] = (payer, amount, more = {}, query = '') =>
    customer.post(`holds${query}`, { entries: out(payer, amount), ...more });
  const balance: Holder['balance'] = async (code) => (await customer.get(`accounts/code/${code}/balance?currency=USD`)).balance;
  return {
    customer,
    newPayer: async (amount = '100.00') => {
      const account_code = `PAYER:${(count += 1)}`;
      await customer.post('accounts', { account_code, name: account_code, type: 'liability', allow_negative: false });
      const entries = [line('SETTLEMENT-USD', 'debit', amount), line(account_code, 'credit', amount)];
      if (amount !== '0.00') expect((await customer.post('transactions/double-entry', { entries })).status).toBe(201);
      return account_code;
    },
    hold,
    held: async (payer, amount, more) => {
      const { status, body } = await hold(payer, amount, more);
      expect([status, body.error]).toEqual([201, undefined]);
      return body.data.hold;
    },
    capture: ({ hold_id }, body = {}, query = '') => customer.post(`holds/${String(hold_id)}/capture${query}`, body),
    release: ({ hold_id }, body = {}, query = '') => customer.post(`holds/${String(hold_id)}/void${query}`, body),
    read: async ({ hold_id }) => (await customer.get(`holds/${String(hold_id)}`)).hold,
    balance,
    sums: async (code) => {
      const { balance: net, available, pending_debits: pending } = await balance(code);
      return [net, available, pending];
    },
  };
}
