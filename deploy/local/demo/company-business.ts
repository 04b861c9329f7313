// What the company does on fixed days: capital, payouts, payroll, rent, providers' charges, taxes, reserves, chargebacks.
import { toDecimal } from '../../../services/platform/money.ts';
import { currencies, merchants, type Currency, type Customer } from './chart.ts';
import type { CustomerBusiness } from './customer-business.ts';
import type { Journal, Line, Words } from './journal.ts';
import { divided, type Rates } from './rates.ts';
import type { SeededRandom } from './seeded-random.ts';

const million = 100_000_000n;
const fees = ['FEES-TRANSACTION', 'FEES-WITHDRAWAL', 'FEES-FX'];

/** The company of the demo. */
export class CompanyBusiness {
  private readonly journal: Journal;
  private readonly random: SeededRandom;
  private readonly rates: Rates;
  private readonly swept = new Map<string, bigint>();
  private taxes = 0n;

  constructor(journal: Journal, random: SeededRandom, rates: Rates) {
    [this.journal, this.random, this.rates] = [journal, random, rates];
  }

  /** The first day: capital, reserves, equipment. */
  begin(at: Date): void {
    this.move(at, { description: 'Share capital paid in' }, 'OPERATING-CASH', 'SHARE-CAPITAL', 48n * million);
    this.move(at, { description: 'Share capital paid in' }, 'OPERATING-CASH', 'SHARE-CAPITAL', 2_500_000n, 'USD');
    this.move(at, { description: 'Opening balances brought in' }, 'SETTLEMENT-NGN', 'OPENING-BALANCES', 6n * million);
    this.move(at, { description: 'Equipment bought', reference: 'INV-0001' }, 'FIXED-ASSETS', 'OPERATING-CASH', (18n * million) / 10n);
    this.reserve(at);
  }

  /** Whatever falls on this day before the customers are up. */
  morning(date: Date, at: Date, business: CustomerBusiness): void {
    const [day, month] = [date.getUTCDate(), date.getUTCMonth()];
    if (day === 1) this.monthBegins(at, business);
    if (day === 1 && month % 3 === 0) this.reserve(at);
    if (day === 10 && this.taxes > 0n) {
      this.move(at, { description: 'Payroll taxes paid' }, 'TAXES-PAYABLE', 'OPERATING-CASH', this.taxes);
      this.taxes = 0n;
    }
    if (day === 15) this.move(at, { description: 'Hosting invoice paid' }, 'ACCOUNTS-PAYABLE', 'OPERATING-CASH', 18_400n, 'USD');
    if (day === 20 && month % 3 === 1)
      this.move(at, { description: 'Audit and legal advice' }, 'PROFESSIONAL-FEES', 'OPERATING-CASH', (24n * million) / 100n);
    if (day === 25) this.payroll(at);
    if (date.getUTCDay() === 3) this.marketing(at);
  }

  /** Payouts of what customers withdrew and merchants sold. */
  evening(date: Date, at: Date, everyDay: boolean): void {
    if (everyDay || date.getUTCDay() === 5) this.payOutWithdrawals(at);
    if (date.getUTCDay() === 1) this.payOutMerchants(at);
  }

  /** A cardholder disputes a deposit: the customer pays as far as it can, the company the rest. */
  chargeback({ code, home }: Customer, at: Date, number: number): void {
    const minor = this.rates.fromKobo(BigInt(this.random.between(200, 2_400)) * 5_000n, home);
    const balance = this.journal.balance(code, home);
    const paid = balance > minor ? minor : balance;
    const reference = `CB-${number}`;
    const words = { description: 'Chargeback by the card scheme', reference, metadata: { channel: 'card', reason: 'fraud' } };
    const lines: Line[] = [
      [code, 'debit', paid, home],
      ['FRAUD-LOSSES', 'debit', minor - paid, home],
      [`SETTLEMENT-${home}`, 'credit', minor, home],
    ];
    this.journal.post(at, words, ...lines.filter(([, , each]) => each > 0n));
  }

  /** A transfer of an unknown sender, which the suspense account balances; with `owner` it is found out a while later. */
  unidentified(at: Date, kobo: bigint, reference: string): void {
    const words = { description: 'Bank transfer of an unknown sender', reference, metadata: { channel: 'bank' } };
    this.journal.single(at, words, ['SETTLEMENT-NGN', 'debit', kobo, 'NGN']);
  }

  /** The customer of such a transfer has been found. */
  identified(at: Date, kobo: bigint, reference: string, { code }: Customer): void {
    this.move(at, { description: 'Sender identified', reference }, 'SUSPENSE-NGN', code, kobo);
  }

  private move(at: Date, words: Words, debit: string, credit: string, minor: bigint, currency: Currency = 'NGN'): void {
    this.journal.post(at, words, [debit, 'debit', minor, currency], [credit, 'credit', minor, currency]);
  }

  private reserve(at: Date): void {
    this.move(at, { description: 'Regulatory reserve topped up' }, 'REGULATORY-RESERVE-NGN', 'OPERATING-CASH', 2n * million);
  }

  private monthBegins(at: Date, business: CustomerBusiness): void {
    this.move(at, { description: 'Office rent', reference: 'RENT' }, 'OFFICE-EXPENSES', 'OPERATING-CASH', (6n * million) / 100n);
    this.move(at, { description: 'Hosting invoice', reference: 'CLOUD' }, 'TECHNOLOGY', 'ACCOUNTS-PAYABLE', 18_400n, 'USD');
    this.move(at, { description: 'Depreciation of equipment' }, 'DEPRECIATION', 'ACCUMULATED-DEPRECIATION', million / 20n);
    const settlement = -this.journal.balance('SETTLEMENT-NGN', 'NGN');
    if (settlement > 0n) {
      this.move(at, { description: 'Charges of the payment provider' }, 'PROVIDER-FEES', 'SETTLEMENT-NGN', settlement / 800n + 100n);
      this.move(at, { description: 'Interest of the bank' }, 'SETTLEMENT-NGN', 'INTEREST-INCOME', settlement / 500n + 100n);
    }
    this.sweepFees(at);
    for (const currency of ['USD', 'EUR', 'GBP'] as const) this.hedge(at, currency, business);
  }

  /** Fees leave the settlement accounts for the company's own. */
  private sweepFees(at: Date): void {
    const lines = currencies.flatMap((currency): Line[] => {
      const earned = fees.reduce((sum, code) => sum + this.journal.balance(code, currency), 0n);
      const minor = earned - (this.swept.get(currency) ?? 0n);
      this.swept.set(currency, earned);
      return minor <= 0n
        ? []
        : [
            ['OPERATING-CASH', 'debit', minor, currency],
            [`SETTLEMENT-${currency}`, 'credit', minor, currency],
          ];
    });
    if (lines.length > 0) this.journal.post(at, { description: 'Fees moved to the operating account' }, ...lines);
  }

  /** Buys or sells at the bank what the customers' exchanges have left open. */
  private hedge(at: Date, currency: 'USD' | 'EUR' | 'GBP', business: CustomerBusiness): void {
    const open = business.short[currency];
    if (open === 0n) return;
    business.short[currency] = 0n;
    const rate = this.rates.of(currency);
    const [foreign, naira] = [`SETTLEMENT-${currency}`, 'SETTLEMENT-NGN'];
    const words = { description: `Exchange position closed at the bank (${currency})`, metadata: { channel: 'treasury' } };
    const quote = { base: currency, quote: 'NGN', value: toDecimal(rate) } as const;
    const minor = open > 0n ? open : -open;
    const kobo = divided(minor * rate, 100n);
    if (open > 0n) {
      const sides = {
        debit: { account_code: foreign, currency, amount: toDecimal(minor) },
        credit: { account_code: naira, currency: 'NGN' },
      } as const;
      this.journal.exchange(at, words, { ...sides, rate: quote }, [foreign, 'debit', minor, currency], [naira, 'credit', kobo, 'NGN']);
    } else {
      const sides = {
        debit: { account_code: naira, currency: 'NGN', amount: toDecimal(kobo) },
        credit: { account_code: foreign, currency },
      } as const;
      const sold = divided(kobo * 100n, rate);
      this.journal.exchange(at, words, { ...sides, rate: quote }, [naira, 'debit', kobo, 'NGN'], [foreign, 'credit', sold, currency]);
    }
  }

  private payroll(at: Date): void {
    const gross = (3n * million) / 10n + BigInt(this.random.between(0, 40)) * 250_000n;
    const tax = gross / 5n;
    this.taxes += tax;
    this.journal.post(
      at,
      { description: 'Payroll', reference: `PAY-${at.toISOString().slice(0, 7)}` },
      ['SALARIES', 'debit', gross, 'NGN'],
      ['OPERATING-CASH', 'credit', gross - tax, 'NGN'],
      ['TAXES-PAYABLE', 'credit', tax, 'NGN'],
    );
  }

  private marketing(at: Date): void {
    const minor = BigInt(this.random.between(30, 240)) * 10_000n;
    this.move(at, { description: 'Advertising', metadata: { channel: 'online' } }, 'MARKETING', 'OPERATING-CASH', minor);
  }

  private payOutWithdrawals(at: Date): void {
    const lines = currencies.flatMap((currency): Line[] => {
      const minor = this.journal.balance('WITHDRAWALS-IN-TRANSIT', currency);
      return minor <= 0n
        ? []
        : [
            ['WITHDRAWALS-IN-TRANSIT', 'debit', minor, currency],
            [`SETTLEMENT-${currency}`, 'credit', minor, currency],
          ];
    });
    const words = { description: 'Withdrawals paid out', reference: `OUT-${at.toISOString().slice(0, 10)}` };
    if (lines.length > 0) this.journal.post(at, words, ...lines);
  }

  /** What each merchant has sold, less 1.2 %. */
  private payOutMerchants(at: Date): void {
    for (const { code, name } of merchants) {
      const lines = currencies.flatMap((currency): Line[] => {
        const minor = this.journal.balance(code, currency);
        if (minor < 100n) return [];
        const fee = divided(minor * 12n, 1000n);
        return [
          [code, 'debit', minor, currency],
          [`SETTLEMENT-${currency}`, 'credit', minor - fee, currency],
          ['FEES-TRANSACTION', 'credit', fee, currency],
        ];
      });
      if (lines.length > 0) this.journal.post(at, { description: `Payout to ${name}` }, ...lines);
    }
  }
}
