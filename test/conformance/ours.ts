// The adapter of this ledger over REST: registers a user, and makes a tenant with a key for each book.
import { randomUUID } from 'node:crypto';
import type { Answer, Book, Change, Entry, Ledger, Open, Transfer } from './adapter.ts';
import type { Http, Reply } from './http.ts';

/** A REST answer in the kit's terms. */
function answerOf(reply: Reply): Answer {
  const { transaction, hold } = reply.json?.data ?? {};
  const id: string | undefined = transaction?.transaction_id ?? hold?.hold_id;
  const detail = `${reply.status} ${reply.json?.code ?? ''}`.trim();
  if (reply.status === 201) return { outcome: 'created', id, detail };
  if (reply.status === 200) return { outcome: 'replayed', id, detail };
  return { outcome: reply.status >= 400 && reply.status < 500 ? 'refused' : 'unknown', detail };
}

function entriesOf({ from, to, amount, currency }: Transfer): Entry[] {
  return [
    { account: from, way: 'out', amount, currency },
    { account: to, way: 'in', amount, currency },
  ];
}

/** All accounts are liabilities, which a credit increases. */
function bodyOf(key: string, entries: Entry[]): object {
  const sideOf = (way: Entry['way']) => (way === 'in' ? 'credit' : 'debit');
  return {
    idempotency_key: key,
    entries: entries.map(({ account, way, amount, currency }) => ({ account_code: account, amount, side: sideOf(way), currency })),
  };
}

class Tenant implements Book {
  readonly accounts: string[];
  readonly floored: string[];
  readonly #http: Http;
  readonly #url: string;
  readonly #headers: Record<string, string>;

  constructor(http: Http, url: string, key: string, want: { accounts: number; floored: number }) {
    this.#http = http;
    this.#url = url;
    this.#headers = { authorization: `Bearer ${key}` };
    const names = (prefix: string, count: number) => Array.from({ length: count }, (_, place) => `${prefix}-${place + 1}`);
    this.accounts = names('FREE', want.accounts);
    this.floored = names('FLOORED', want.floored);
  }

  /** Creates the accounts. */
  async open(): Promise<void> {
    for (const [codes, allowNegative] of [
      [this.accounts, true],
      [this.floored, false],
    ] as const) {
      for (const code of codes) {
        const body = { account_code: code, name: code, type: 'liability', allow_negative: allowNegative };
        await made(this.#http, `${this.#url}/accounts`, body, this.#headers);
      }
    }
  }

  post: Book['post'] = (transfer, cutAfter) => this.#post(transfer.key, entriesOf(transfer), cutAfter);

  postEntries = ({ key, entries }: { key: string; entries: Entry[] }): Promise<Answer> => this.#post(key, entries);

  hold = (transfer: Transfer): Promise<Answer> => this.#send('/holds', bodyOf(transfer.key, entriesOf(transfer)));

  capture: NonNullable<Book['capture']> = ({ key, hold, amount, final }) =>
    this.#send(`/holds/${hold}/capture`, { idempotency_key: key, amount, final });

  release = (hold: string): Promise<Answer> => this.#send(`/holds/${hold}/void`);

  refund: NonNullable<Book['refund']> = ({ key, transaction, amount }) =>
    this.#send(`/transactions/${transaction}/reverse`, { idempotency_key: key, amount });

  postTogether = (transfers: Transfer[]): Promise<Answer> =>
    this.#send('/transactions/batch', {
      atomic: true,
      items: transfers.map((transfer) => ({ op: 'double', ...bodyOf(transfer.key, entriesOf(transfer)) })),
    });

  #post(key: string, entries: Entry[], cutAfter?: number): Promise<Answer> {
    return this.#send('/transactions/double-entry', bodyOf(key, entries), cutAfter);
  }

  async #send(path: string, body?: object, cutAfter?: number): Promise<Answer> {
    return answerOf(await this.#http.send({ method: 'POST', url: this.#url + path, headers: this.#headers, body, cutAfter }));
  }

  async balance(account: string, currency: string): Promise<string> {
    const { balance } = await this.#get(`/accounts/code/${account}/balance?currency=${currency}`);
    return balance.balance;
  }

  async balances(accounts: string[], currency: string): Promise<string[]> {
    const { accounts: tree } = await this.#get('/accounts/hierarchy?include=balances');
    return accounts.map((code) => {
      const found = tree.find((each: any) => each.account_code === code);
      return found.balances.find((each: any) => each.currency === currency)?.balance ?? '0.00';
    });
  }

  async history(account: string, currency: string): Promise<Change[]> {
    const changes: Change[] = [];
    for (let cursor = ''; ;) {
      const { history, pagination } = await this.#get(
        `/accounts/code/${account}/balance/history?currency=${currency}&limit=100${cursor && `&cursor=${cursor}`}`,
      );
      for (const { transaction_id, side, amount } of history) {
        changes.push({ transaction: transaction_id, amount: side === 'credit' ? amount : `-${amount}` });
      }
      if (!pagination.has_more) return changes;
      cursor = encodeURIComponent(pagination.next_cursor);
    }
  }

  async #get(path: string): Promise<any> {
    const reply = await this.#http.send({ method: 'GET', url: this.#url + path, headers: this.#headers });
    if (reply.status !== 200) throw new Error(`GET ${path}: ${reply.status} ${reply.text}`);
    return reply.json.data;
  }
}

async function made(http: Http, url: string, body: unknown, headers: Record<string, string> = {}): Promise<any> {
  const reply = await http.send({ method: 'POST', url, headers, body });
  if (reply.status !== 200 && reply.status !== 201) throw new Error(`POST ${url}: ${reply.status} ${reply.text}`);
  return reply.json.data;
}

/** Registers a new user. */
export const open: Open = async ({ url, http }): Promise<Ledger> => {
  const name = `conformance-${randomUUID().slice(0, 13)}`;
  const credentials = { email: `${name}@example.com`, password: randomUUID() };
  await made(http, `${url}/v1/auth/register`, { ...credentials, first_name: 'Ada', last_name: 'Obi' });
  const { token } = await made(http, `${url}/v1/auth/login`, credentials);
  const headers = { authorization: `Bearer ${token}` };
  const described = await http.send({ method: 'GET', url: `${url}/openapi.json` });
  let tenants = 0;
  return {
    name: `this ledger ${described.json?.info?.version ?? ''}`.trim(),
    currencies: ['USD', 'EUR'],
    largest: '9999999999999.99',
    lacks: {},
    prepare: async (want) => {
      tenants += 1;
      const slug = `${name}-${tenants}`;
      const { tenant } = await made(http, `${url}/v1/tenants`, { name: slug, slug, business_type: 'wallet' }, headers);
      const scopes = ['accounts:read', 'accounts:write', 'balances:read', 'transactions:read', 'transactions:write'];
      const { api_key: key } = await made(http, `${url}/v1/tenants/${tenant.id}/api-keys`, { name: 'conformance', scopes }, headers);
      const book = new Tenant(http, `${url}/v1/tenants/${slug}`, key.key, want);
      await book.open();
      return book;
    },
  };
};
