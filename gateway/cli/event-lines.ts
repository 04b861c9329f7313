// Events of the log, one a line.
import type { StreamedEvent } from '../clients/typescript/ledger.ts';
import type { Item, Output } from './output.ts';
import { operations } from './operations.ts';

/** Every type of event that a stream can have. */
export const eventTypes: string[] = (operations.find(({ id }) => id === 'configureWebhook')?.body ?? [])
  .flatMap(({ name, values = [] }) => (name === 'events' ? values : []))
  .filter((type) => type !== 'test.webhook');

/** Codes of the accounts that an event is about. */
export function accountsOf({ data }: StreamedEvent): string[] {
  const { account_code: own, lines = [], entries = [] } = data as { account_code?: string; lines?: Item[]; entries?: Item[] };
  return [...(own === undefined ? [] : [own]), ...[...lines, ...entries].map((line) => String(line['account_code']))];
}

/** One line about an event. */
export function eventLine(event: StreamedEvent, output: Output): string {
  const time = new Date(event.created * 1000).toISOString().replace('.000Z', 'Z');
  return `${time}  ${String(event.sequence).padStart(8)}  ${output.paint('bold', event.type)}  ${summaryOf(event)}`;
}

function summaryOf(event: StreamedEvent): string {
  const { data } = event;
  const text = (name: string) => (typeof data[name] === 'string' ? data[name] : '');
  const words = [`${text('amount')} ${text('currency')}`.trim(), [...new Set(accountsOf(event))].join(' ')];
  words.push(...['name', 'balance', 'description', 'through', 'kind'].map(text));
  // Control characters of a description could rewrite the terminal's screen.
  return words
    .filter(Boolean)
    .join('  ')
    .replace(/\p{Cc}/gu, ' ');
}
