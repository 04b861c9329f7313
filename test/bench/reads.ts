// Users who register while others read: 50 at a time, each new registration as soon as one is done.
import { randomBytes } from 'node:crypto';

/** Users who register at once. */
export const registering = 50;

/** Registers users until `until` resolves; answers how many, and how many of the requests were refused. */
export async function registerUsers(url: string, until: Promise<unknown>): Promise<{ registered: number; failures: number }> {
  let over = false;
  let registered = 0;
  let failures = 0;
  void until.finally(() => (over = true)).catch(() => undefined);
  const isOver = () => over;
  await Promise.all(
    Array.from({ length: registering }, async () => {
      while (!isOver()) {
        const answer = await fetch(`${url}/v1/auth/register`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({
            email: `user.${randomBytes(8).toString('hex')}@example.com`,
            password: randomBytes(12).toString('hex'),
            first_name: 'Ada',
            last_name: 'Lovelace',
          }),
        });
        await answer.arrayBuffer();
        if (answer.status === 201) registered++;
        else failures++;
      }
    }),
  );
  return { registered, failures };
}
