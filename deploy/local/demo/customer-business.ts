// What customers do in a day: deposits, salaries, transfers, purchases, withdrawals, exchanges, refunds.
import { toDecimal } from '../../../services/platform/money.ts';
import { merchants, type Currency, type Customer } from './chart.ts';
import type { Journal, Line, Words } from './journal.ts';
import { divided, type Rates } from './rates.ts';
import type { SeededRandom } from './seeded-random.ts';

type Deed = 'deposit' | 'salary' | 'transfer' | 'purchase' | 'withdrawal' | 'exchange' | 'cancellation' | 'rebate';

/** The day on which something happens. */
export interface BusinessDay {
  date: Date;
  /** Customers that have joined by then. */
  customers: readonly Customer[];
  /** Days on which employers pay. */
  isPayday: boolean;
}

/** A purchase that may be cancelled. */
interface Purchase {
  key: string;
  words: Words;
  lines: readonly [Line, Line];
}

const perMilleOf = (minor: bigint, cases: bigint): bigint => divided(minor * cases, 1000n);

/** The customers of the demo and their purchases. */
export class CustomerBusiness {
  /** What the company owes in a currency after customers' exchanges, in minor units. */
  readonly short: Record<Exclude<Currency, 'NGN'>, bigint> = { USD: 0n, EUR: 0n, GBP: 0n };
  private readonly journal: Journal;
  private readonly random: SeededRandom;
  private readonly rates: Rates;
  private readonly purchases: Purchase[] = [];
  private orders = 1000;

  constructor(journal: Journal, random: SeededRandom, rates: Rates) {
    [this.journal, this.random, this.rates] = [journal, random, rates];
  }

  /** One thing that a customer does. A customer with too little money deposits instead. */
  act({ customers, isPayday }: BusinessDay, at: Date): void {
    const customer = this.random.pick(customers);
    const deed = this.random.weighted<Deed>([
      ['deposit', 26],
      ['salary', isPayday ? 45 : 1],
      ['transfer', 26],
      ['purchase', 30],
      ['withdrawal', 10],
      ['exchange', 5],
      ['cancellation', 1],
      ['rebate', 1],
    ]);
    const isDone =
      (deed === 'salary' && this.salary(customer, at)) ||
      (deed === 'transfer' && this.transfer(customer, this.random.pick(customers), at)) ||
      (deed === 'purchase' && this.purchase(customer, at)) ||
      (deed === 'withdrawal' && this.withdrawal(customer, at)) ||
      (deed === 'exchange' && this.exchange(customer, at)) ||
      (deed === 'cancellation' && this.cancellation(at)) ||
      (deed === 'rebate' && this.rebate(customer, at));
    if (!isDone) this.deposit(customer, at);
  }

  /** A number of naira, in minor units of a currency. */
  private amount(min: number, max: number, currency: Currency): bigint {
    const minor = this.rates.fromKobo(BigInt(this.random.skewed(Math.ceil(min / 50), Math.ceil(max / 50))) * 5_000n, currency);
    return minor > 100n ? minor : 100n;
  }

  /** The same, where the customer has as much, otherwise undefined. */
  private affordable(customer: Customer, min: number, max: number, extra = 0n): bigint | undefined {
    const minor = this.amount(min, max, customer.home);
    return this.journal.balance(customer.code, customer.home) >= minor + extra ? minor : undefined;
  }

  private nextOrder(prefix: string): string {
    this.orders += 1;
    return `${prefix}-${this.orders}`;
  }

  private deposit({ code, home }: Customer, at: Date): void {
    const minor = this.amount(2_000, 160_000, home);
    if (this.random.perMille(300)) {
      const words = { description: 'Bank transfer received', reference: this.nextOrder('NIP'), metadata: { channel: 'bank' } };
      this.journal.post(at, words, [`SETTLEMENT-${home}`, 'debit', minor, home], [code, 'credit', minor, home]);
      return;
    }
    const fee = perMilleOf(minor, 14n);
    this.journal.post(
      at,
      { description: 'Card deposit', reference: this.nextOrder('CARD'), metadata: { channel: 'card' } },
      [`SETTLEMENT-${home}`, 'debit', minor, home],
      [code, 'credit', minor - fee, home],
      ['FEES-TRANSACTION', 'credit', fee, home],
    );
  }

  private salary({ code, home }: Customer, at: Date): true {
    const minor = this.amount(90_000, 850_000, home);
    const words = { description: 'Salary received', reference: this.nextOrder('SAL'), metadata: { channel: 'bank' } };
    this.journal.post(at, words, [`SETTLEMENT-${home}`, 'debit', minor, home], [code, 'credit', minor, home]);
    return true;
  }

  private transfer(from: Customer, to: Customer, at: Date): boolean {
    const minor = this.affordable(from, 500, 60_000);
    if (minor === undefined || from.code === to.code) return false;
    const words = { description: `Transfer to ${to.name}`, reference: this.nextOrder('P2P'), metadata: { channel: 'app' } };
    this.journal.post(at, words, [from.code, 'debit', minor, from.home], [to.code, 'credit', minor, from.home]);
    return true;
  }

  private purchase(customer: Customer, at: Date): boolean {
    const merchant = this.random.pick(merchants);
    const minor = this.affordable(customer, ...merchant.price);
    if (minor === undefined) return false;
    const order = this.nextOrder('ORD');
    const channel = this.random.weighted([
      ['app', 6],
      ['card', 3],
      ['ussd', 1],
    ]);
    const words = { description: `Purchase at ${merchant.name}`, reference: order, metadata: { channel, order_id: order } };
    const lines = [
      [customer.code, 'debit', minor, customer.home],
      [merchant.code, 'credit', minor, customer.home],
    ] as const;
    this.purchases.push({ key: this.journal.post(at, words, ...lines), words, lines });
    if (this.purchases.length > 60) this.purchases.shift();
    return true;
  }

  private withdrawal(customer: Customer, at: Date): boolean {
    const { code, home } = customer;
    const fee = this.rates.fromKobo(5_000n, home) + 1n;
    const minor = this.affordable(customer, 5_000, 220_000, fee);
    if (minor === undefined) return false;
    this.journal.post(
      at,
      { description: 'Withdrawal to bank', reference: this.nextOrder('WDR'), metadata: { channel: 'bank' } },
      [code, 'debit', minor + fee, home],
      ['WITHDRAWALS-IN-TRANSIT', 'credit', minor, home],
      ['FEES-WITHDRAWAL', 'credit', fee, home],
    );
    return true;
  }

  /** Naira to a foreign currency, or the home currency to naira, at a rate that is 1.5 % worse than the reference. */
  private exchange(customer: Customer, at: Date): boolean {
    const paid = this.affordable(customer, 10_000, 300_000);
    if (paid === undefined) return false;
    const { code, home } = customer;
    const foreign = home === 'NGN' ? this.random.pick(['USD', 'GBP', 'EUR'] as const) : home;
    const into = home === 'NGN' ? foreign : 'NGN';
    const [rate, reference] = [this.rates.of(foreign, home === 'NGN' ? 15 : -15), this.rates.of(foreign)];
    const fee = perMilleOf(paid, 5n) + 1n;
    const converted = paid - fee;
    const at100 = (value: bigint) => (home === 'NGN' ? divided(converted * 100n, value) : divided(converted * value, 100n));
    this.short[foreign] += home === 'NGN' ? at100(reference) : -converted;
    this.journal.exchange(
      at,
      { description: `Exchange ${home} to ${into}`, reference: this.nextOrder('FX'), metadata: { channel: 'app' } },
      {
        debit: { account_code: code, currency: home, amount: toDecimal(paid) },
        credit: { account_code: code, currency: into },
        rate: { base: foreign, quote: 'NGN', value: toDecimal(rate) },
        fees: [{ account_code: 'FEES-FX', currency: home, amount: toDecimal(fee) }],
        spread: { account_code: 'FX-GAINS', reference_rate: toDecimal(reference) },
      },
      [code, 'debit', paid, home],
      [code, 'credit', at100(rate), into],
      ['FEES-FX', 'credit', fee, home],
    );
    return true;
  }

  /** A recent purchase is reversed, or a part of it is refunded. */
  private cancellation(at: Date): boolean {
    const [purchase] = this.purchases.splice(0, 1);
    if (!purchase) return false;
    const { key, words, lines } = purchase;
    const part = this.random.perMille(350) ? lines[0][2] / 2n + 1n : undefined;
    const description = part === undefined ? `Cancelled: ${words.description}` : `Partly refunded: ${words.description}`;
    this.journal.reverse(at, { description }, key, lines, part);
    return true;
  }

  private rebate({ code, home }: Customer, at: Date): true {
    const minor = this.amount(100, 1_500, home);
    const words = { description: 'Fee refund after a complaint', reference: this.nextOrder('REB'), metadata: { channel: 'support' } };
    this.journal.post(at, words, ['FEE-REFUNDS', 'debit', minor, home], [code, 'credit', minor, home]);
    return true;
  }
}
