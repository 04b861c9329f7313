// What the columns of the tables that every batch writes may hold is said by domains, no longer by CHECKs: PostgreSQL parses a table's CHECKs
// anew for each statement, and those of a domain once a connection. (A batch of one posting: a quarter of what PostgreSQL spends on it.)
import { Migration } from '@mikro-orm/migrations';

const domains = {
  currency_code: ['text', `value in ('NGN', 'USD', 'EUR', 'GBP')`],
  chart_name: ['text', `value in ('wallet', 'exchange', 'lending', 'payment_processor', 'other')`],
  event_type: ['text', `value in ('transaction.posted', 'account.created', 'account.updated')`],
  entry_side: ['text', `value in ('debit', 'credit')`],
  trace_parent: ['text', 'octet_length(value) = 55'],
  event_hash: ['bytea', 'octet_length(value) = 32'],
  request_fingerprint: ['bytea', 'octet_length(value) = 33'],
  total: ['numeric(38, 0)', 'value >= 0'],
  positive: ['bigint', 'value > 0'],
  not_negative: ['bigint', 'value >= 0'],
  place: ['smallint', 'value >= 0'],
} as const;

const columns: Record<string, Record<string, keyof typeof domains>> = {
  heads: { sequence: 'not_negative', hash: 'event_hash', chart: 'chart_name', rebuilt: 'not_negative' },
  log: { sequence: 'positive', type: 'event_type', hash: 'event_hash', traceparent: 'trace_parent' },
  transactions: { fingerprint: 'request_fingerprint' },
  entries: { currency: 'currency_code', position: 'place', side: 'entry_side', amount: 'positive' },
  balances: {
    currency: 'currency_code',
    debits: 'total',
    credits: 'total',
    pending_debits: 'total',
    pending_credits: 'total',
    version: 'positive',
  },
};

export class Domains extends Migration {
  override up(): void {
    for (const [name, [type]] of Object.entries(domains)) this.addSql(`create domain ${name} as ${type}`);
    // While a domain allows everything, a column becomes one without its table being written again; what is there is read then.
    for (const [table, changes] of Object.entries(columns)) {
      const altered = Object.entries(changes).map(([column, domain]) => `alter column ${column} type ${domain}`);
      this.addSql(`alter table ${table} ${altered.join(', ')}`);
    }
    for (const [name, [, check]] of Object.entries(domains)) this.addSql(`alter domain ${name} add constraint ${name} check (${check})`);
    for (const [table, changes] of Object.entries(columns)) {
      const dropped = Object.keys(changes).map((column) => `drop constraint ${table}_${column}_check`);
      this.addSql(`alter table ${table} ${dropped.join(', ')}`);
    }
  }
}
