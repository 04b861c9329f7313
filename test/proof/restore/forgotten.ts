// What identity forgets in a restore: a revoked key, a new key, an erased subject.
import type { Deployment, Poster } from './deployment.ts';

const subject = 'customer-81';

/** Two keys and a subject of one tenant. */
export class Forgotten {
  private readonly deployment: Deployment;
  private readonly poster: Poster;
  private revoked = { id: '', key: '' };
  private young = { id: '', key: '' };
  private transaction = '';

  constructor(deployment: Deployment, poster: Poster) {
    [this.deployment, this.poster] = [deployment, poster];
  }

  /** Before the moment: a key, and a posting with personal data. */
  async prepare(): Promise<void> {
    this.revoked = await this.newKey();
    const entries = ['debit', 'credit'].map((side) => ({ account_code: 'SETTLEMENT-USD', side, amount: '1.00', currency: 'USD' }));
    const body = { entries, personal: [{ subject, data: { name: 'Ada Lovelace' } }] };
    this.transaction = (await this.deployment.call(this.poster, 'POST', 'transactions/double-entry', body)).transaction.transaction_id;
  }

  /** After it: the key is revoked, another is made, the subject is erased. */
  async change(): Promise<void> {
    await this.revoke();
    this.young = await this.newKey();
    await this.erase();
  }

  /** What of it is not as the guide says after a restore. */
  async faults(): Promise<string[]> {
    const status = async (key: string) => (await this.deployment.ask({ ...this.poster, key }, 'GET', 'accounts')).status;
    const [old, young] = [await status(this.revoked.key), await status(this.young.key)];
    const data = await this.personal();
    return [
      ...(old === 200 ? [] : [`the key that was revoked later is answered ${old}`]),
      ...(young === 401 ? [] : [`the key that was made later is answered ${young}`]),
      ...(data?.name === 'Ada Lovelace' ? [] : [`the subject that was erased later has ${JSON.stringify(data)}`]),
    ];
  }

  /** Revokes and erases again; what is not gone then. */
  async repeat(): Promise<string[]> {
    await this.revoke();
    await this.erase();
    const data = await this.personal();
    return data == null ? [] : [`the subject that was erased again has ${JSON.stringify(data)}`];
  }

  private async newKey(): Promise<{ id: string; key: string }> {
    return (await this.administer('POST', '', { name: 'drill', scopes: ['accounts:read'] })).api_key;
  }

  private async revoke(): Promise<void> {
    await this.administer('DELETE', `/${this.revoked.id}`);
  }

  private async administer(method: string, path: string, body?: unknown): Promise<any> {
    const { tenant } = this.poster;
    const asked = { key: tenant.owner.token, ...(body !== undefined && { body }) };
    const answer = await this.deployment.cluster.rest(method, `/v1/tenants/${tenant.id}/api-keys${path}`, asked);
    if (answer.status > 201) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  private async erase(): Promise<void> {
    await this.deployment.call(this.poster, 'POST', 'subjects/erase', { subject, reason: 'asked for' });
  }

  private async personal(): Promise<{ name: string } | null | undefined> {
    return (await this.deployment.call(this.poster, 'GET', `transactions/${this.transaction}`)).transaction.personal[0].data;
  }
}
