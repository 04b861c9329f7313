// A year of business that ends at a given time: every item, day by day. The same arguments lead to the same items.
import { customersOf, type Customer } from './chart.ts';
import { CompanyBusiness } from './company-business.ts';
import { CustomerBusiness } from './customer-business.ts';
import { Journal, type Item } from './journal.ts';
import { Rates } from './rates.ts';
import { SeededRandom } from './seeded-random.ts';

/** How much business there is. */
export interface Size {
  customers: number;
  /** Items in all; a year has at least what the company does by itself, about 900. */
  transactions: number;
}

const days = 365;
const dayMs = 86_400_000;
const chargebackWeek = { first: 248, last: 254 };

/** Days, Sunday first. */
const weekdays = [60, 100, 98, 102, 105, 135, 95] as const;

/** The start of the UTC day of a time. */
const startOfDay = (time: number): number => time - (time % dayMs);

/** The first day of the year that ends at `end`. */
export function firstDay(end: Date): Date {
  return new Date(startOfDay(end.getTime()) - (days - 1) * dayMs);
}

/** The items of each day, in the order in which they are posted. */
export function* yearOfBusiness({ customers, transactions }: Size, end: Date, seed: number): Generator<Item[]> {
  const random = new SeededRandom(seed);
  const [journal, rates] = [new Journal(), new Rates()];
  const company = new CompanyBusiness(journal, random, rates);
  const business = new CustomerBusiness(journal, random, rates);
  const everybody = customersOf(customers, seed);
  const first = firstDay(end).getTime();
  const weights = Array.from({ length: days }, (_, index) => weightOf(index, new Date(first + index * dayMs)));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let due = 0;
  for (const [index, weight] of weights.entries()) {
    const date = new Date(first + index * dayMs);
    // The last day is not over yet: its times are moved together.
    const share = index === days - 1 ? (end.getTime() - date.getTime()) / dayMs : 1;
    const at = (minute: number) => new Date(date.getTime() + Math.floor(minute * 60_000 * share));
    const joined = everybody.slice(0, Math.max(2, Math.ceil((customers * (20 + (80 * index) / days)) / 100)));
    if (index === 0) company.begin(at(180));
    rates.move(random);
    company.morning(date, at(240), business);
    if (index >= chargebackWeek.first && index <= chargebackWeek.last) chargebacks(company, random, joined, index, at);
    suspenseCases(company, joined, index, at(290));
    due += weight;
    const wanted = Math.floor((transactions * due) / total) - journal.count;
    const day = { date, customers: joined, isPayday: isPayday(date) };
    for (let number = 0; number < wanted; number += 1)
      business.act(day, at(300 + Math.floor((number * 1000) / wanted) + random.between(0, 50) / 50));
    company.evening(date, at(1_320), transactions >= 5_000);
    yield journal.take();
  }
}

/** Three times within the chargeback week, more often for many customers. */
function chargebacks(company: CompanyBusiness, random: SeededRandom, customers: Customer[], index: number, at: (minute: number) => Date) {
  const count = 1 + Math.floor(customers.length / 60);
  for (let number = 0; number < count; number += 1)
    company.chargeback(random.pick(customers), at(260 + number), 100 * (index - chargebackWeek.first + 1) + number);
}

/** Two transfers of unknown senders are identified within days, the third is still open. */
function suspenseCases(company: CompanyBusiness, [first, second]: Customer[], index: number, at: Date): void {
  if (index === 96) company.unidentified(at, 4_500_000n, 'NIP-77120');
  if (index === 99 && first) company.identified(at, 4_500_000n, 'NIP-77120', first);
  if (index === 221) company.unidentified(at, 1_250_000n, 'NIP-80334');
  if (index === 228 && second) company.identified(at, 1_250_000n, 'NIP-80334', second);
  if (index === 357) company.unidentified(at, 8_730_050n, 'NIP-91007');
}

const isPayday = (date: Date): boolean => date.getUTCDate() >= 25 && date.getUTCDate() <= 27;

/** How much happens on a day: four times as much at the end of the year, more on Fridays and paydays. */
function weightOf(index: number, date: Date): number {
  const growth = 100 + Math.floor((300 * index) / days);
  const season = isPayday(date) ? 170 : date.getUTCDate() <= 3 ? 115 : 100;
  return growth * season * (weekdays[date.getUTCDay()] ?? 100);
}
