// Clients that post while a backup is made, and note what they were answered and when: before, at or after the moment that is restored.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Deployment, Poster } from './deployment.ts';

/** A posting as its client knows it. */
export interface Sent {
  poster: Poster;
  body: { idempotency_key: string } & Record<string, unknown>;
  /** Whether it was sent after the moment. */
  sentAfter: boolean;
  /** Whether its answer came before the moment; undefined: there was none. */
  answeredBefore?: boolean;
  /** The transaction as it was answered. */
  transaction?: any;
}

const line = (account_code: string, side: string, amount: string) => ({ account_code, side, amount, currency: 'USD' });

/** Clients of several tenants, each of which posts one after the other. */
export class Traffic {
  readonly sent: Sent[] = [];
  private readonly deployment: Deployment;
  private phase: 'before' | 'at' | 'after' = 'before';
  private ending = false;
  private readonly clients: Promise<void>[];

  constructor(deployment: Deployment, posters: Poster[], clientsEach: number) {
    this.deployment = deployment;
    this.clients = posters.flatMap((poster) => Array.from({ length: clientsEach }, () => this.run(poster)));
  }

  /** Asks for the moment: what is answered before the question is older, what is sent after the answer is younger. */
  async atMoment(ask: () => Promise<string>): Promise<string> {
    this.phase = 'at';
    const moment = await ask();
    this.phase = 'after';
    return moment;
  }

  /** Resolves when so many more postings have been answered. */
  async answered(more: number): Promise<void> {
    const count = () => this.sent.filter(({ transaction }) => transaction !== undefined).length;
    for (const wanted = count() + more; count() < wanted;) await pause(10);
  }

  /** Begins no more; resolves when all have ended. */
  async end(): Promise<void> {
    this.ending = true;
    await Promise.all(this.clients);
  }

  private async run(poster: Poster): Promise<void> {
    while (!this.ending) {
      const amount = `${1 + (this.sent.length % 97)}.00`;
      const entries = [line('SETTLEMENT-USD', 'debit', amount), line('CUSTOMER-WALLETS-USD', 'credit', amount)];
      const sent: Sent = { poster, body: { idempotency_key: randomUUID(), entries }, sentAfter: this.phase === 'after' };
      this.sent.push(sent);
      // While the server is away there is no answer, or none that says whether it was posted.
      const answer = await this.deployment.post(poster, sent.body).catch(() => null);
      if (answer?.status === 201)
        Object.assign(sent, { transaction: answer.body.data.transaction, answeredBefore: this.phase === 'before' });
      await pause(20);
    }
  }
}
