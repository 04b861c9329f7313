// Cala, Galoy's ledger, over the GraphQL interface of cala-server: a journal for each book; the kit's key is the transaction's id, which its caller chooses.
import { createHash, randomUUID } from 'node:crypto';
import type { Answer, Book, Change, Entry, Ledger, Open } from '../adapter.ts';
import type { Http, Reply } from '../http.ts';

/** The UUID that stands for a key. */
function uuidOf(key: string): string {
  const hex = createHash('sha256').update(key).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** GraphQL answers 200 to everything; which refusal it is stands in its text. */
function answerOf(reply: Reply): Answer {
  const error: string | undefined = reply.json?.errors?.[0]?.message;
  const said = `${reply.status} ${error ?? ''}`.trim();
  if (reply.status !== 200 || reply.json === undefined) return { outcome: 'unknown', said };
  if (error === undefined) return { outcome: 'created', id: reply.json.data.transactionPost.transaction.transactionId, said };
  if (error.includes('DuplicateId')) return { outcome: 'duplicate', said };
  if (/VelocityError - Enforcement|Unbalanced/i.test(error)) return { outcome: 'refused', said };
  return { outcome: 'unknown', said };
}

class Server {
  readonly #http: Http;
  readonly #url: string;

  constructor(http: Http, url: string) {
    this.#http = http;
    this.#url = `${url}/graphql`;
  }

  /** Sends an operation, whatever comes of it. */
  send(query: string, variables: object, cutAfter?: number): Promise<Reply> {
    return this.#http.send({ method: 'POST', url: this.#url, body: { query, variables }, cutAfter });
  }

  /** Sends an operation that must succeed, and resolves to its data. */
  async must(query: string, variables: object): Promise<any> {
    const reply = await this.send(query, variables);
    if (reply.status !== 200 || reply.json?.errors) throw new Error(`${query.slice(0, 80)}: ${reply.status} ${reply.text}`);
    return reply.json.data;
  }

  /** A mutation with one argument, `input`. */
  make(mutation: string, type: string, input: object): Promise<any> {
    return this.must(`mutation ($input: ${type}!) { ${mutation}(input: $input) { __typename } }`, { input });
  }
}

const postMutation = 'mutation ($input: TransactionInput!) { transactionPost(input: $input) { transaction { transactionId } } }';

/** Entries of a template: all in the settled layer, expressions in CEL. */
function templateEntry(account: string, way: Entry['way'], units: string, currency: string): object {
  const direction = way === 'in' ? 'CREDIT' : 'DEBIT';
  return { entryType: `'${direction}'`, accountId: account, layer: 'SETTLED', direction, units, currency };
}

class Journal implements Book {
  readonly accounts: string[];
  readonly floored: string[];
  readonly #server: Server;
  readonly #journal = randomUUID();
  readonly #template = `transfer-${randomUUID()}`;

  constructor(server: Server, want: { accounts: number; floored: number }) {
    this.#server = server;
    this.accounts = Array.from({ length: want.accounts }, () => randomUUID());
    this.floored = Array.from({ length: want.floored }, () => randomUUID());
  }

  /** Makes the journal, its accounts, the control that keeps the floored ones from going below zero, and the template of a transfer. */
  async open(): Promise<void> {
    await this.#server.make('journalCreate', 'JournalCreateInput', { journalId: this.#journal, name: this.#journal });
    for (const accountId of [...this.accounts, ...this.floored]) {
      const input = { accountId, code: accountId, name: accountId, normalBalanceType: 'CREDIT' };
      await this.#server.make('accountCreate', 'AccountCreateInput', input);
    }
    if (this.floored.length > 0) await this.#floor();
    const param = (name: string, type: string) => ({ name, type });
    await this.#makeTemplate(
      this.#template,
      [param('from', 'UUID'), param('to', 'UUID'), param('amount', 'DECIMAL'), param('currency', 'STRING')],
      [
        templateEntry('params.from', 'out', 'params.amount', 'params.currency'),
        templateEntry('params.to', 'in', 'params.amount', 'params.currency'),
      ],
    );
  }

  /** What has gone out may exceed what has come in by at most nothing, for each currency. */
  async #floor(): Promise<void> {
    const [velocityLimitId, velocityControlId] = [randomUUID(), randomUUID()];
    const balance = [{ layer: 'SETTLED', amount: "decimal('0')", normalBalanceType: 'DEBIT' }];
    const named = { name: 'floor', description: 'not below zero' };
    await this.#server.make('velocityLimitCreate', 'VelocityLimitCreateInput', {
      ...named,
      velocityLimitId,
      window: [],
      limit: { balance },
    });
    const enforcement = { velocityEnforcementAction: 'REJECT' };
    await this.#server.make('velocityControlCreate', 'VelocityControlCreateInput', { ...named, velocityControlId, enforcement });
    await this.#server.make('velocityControlAddLimit', 'VelocityControlAddLimitInput', { velocityControlId, velocityLimitId });
    for (const accountId of this.floored) {
      await this.#server.make('velocityControlAttach', 'VelocityControlAttachInput', { velocityControlId, accountId, params: {} });
    }
  }

  async #makeTemplate(code: string, params: object[], entries: object[]): Promise<void> {
    const transaction = { effective: 'date()', journalId: `uuid('${this.#journal}')` };
    const input = { txTemplateId: randomUUID(), code, params, transaction, entries };
    await this.#server.make('txTemplateCreate', 'TxTemplateCreateInput', input);
  }

  post: Book['post'] = async ({ key, ...params }, cutAfter) => {
    const input = { transactionId: uuidOf(key), txTemplateCode: this.#template, params };
    return answerOf(await this.#server.send(postMutation, { input }, cutAfter));
  };

  /** Entries are a template's, so there is one for each posting. */
  async postEntries({ key, entries }: { key: string; entries: Entry[] }): Promise<Answer> {
    const code = `entries-${key}`;
    await this.#makeTemplate(
      code,
      [],
      entries.map(({ account, way, amount, currency }) =>
        templateEntry(`uuid('${account}')`, way, `decimal('${amount}')`, `'${currency}'`),
      ),
    );
    const input = { transactionId: uuidOf(key), txTemplateCode: code };
    return answerOf(await this.#server.send(postMutation, { input }));
  }

  async balance(account: string, currency: string): Promise<string> {
    const query = `query ($journal: UUID!, $account: UUID!, $currency: CurrencyCode!) {
      balance(journalId: $journal, accountId: $account, currency: $currency) { settled { normalBalance { units } } } }`;
    const { balance } = await this.#server.must(query, { journal: this.#journal, account, currency });
    return balance?.settled.normalBalance.units ?? '0';
  }

  async history(account: string, currency: string): Promise<Change[]> {
    const query = `query ($account: UUID!, $after: String) { account(id: $account) { entries(first: 100, after: $after) {
      nodes { transactionId currency direction units } pageInfo { hasNextPage endCursor } } } }`;
    const changes: Change[] = [];
    for (let after: string | null = null; ;) {
      const found: any = await this.#server.must(query, { account, after });
      const { entries } = found.account;
      for (const { transactionId, currency: own, direction, units } of entries.nodes) {
        if (own === currency) changes.push({ transaction: transactionId, amount: direction === 'CREDIT' ? units : `-${units}` });
      }
      if (!entries.pageInfo.hasNextPage) return changes;
      after = entries.pageInfo.endCursor;
    }
  }
}

/** Everything is made anew for each book. */
export const open: Open = async ({ url, http }): Promise<Ledger> => {
  const server = new Server(http, url);
  const { serverVersion } = await server.must('{ serverVersion }', {});
  return {
    name: `cala-server ${serverVersion}`,
    currencies: ['USD', 'EUR'],
    // A decimal of 96 bits.
    largest: '999999999999999999.99',
    lacks: {
      replay: 'a transaction id that was used is refused',
      reading: 'not documented',
    },
    prepare: async (want) => {
      const book = new Journal(server, want);
      await book.open();
      return book;
    },
  };
};
