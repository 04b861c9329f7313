// The script of the page to which the links of mails lead, run as a browser does, against a deployment of real processes.
import { runInNewContext } from 'node:vm';
import type { Answer } from '../test/cluster.ts';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import type { Mail } from '../test/mails.ts';

let cluster: CheckedCluster;
beforeAll(async () => {
  cluster = await startCheckedCluster();
});
afterAll(() => cluster.stop());

const post = (path: string, body?: object, key?: string): Promise<Answer> =>
  cluster.rest('POST', `/v1/${path}`, { ...(body && { body }), ...(key !== undefined && { key }) });

interface Field {
  value: string;
  checked: boolean;
  required: boolean;
  addEventListener: (name: string, listener: () => void) => void;
  focus: () => void;
  change?: () => void;
}

/** The page of a link, with what its script uses of a browser. */
async function open(link: URL) {
  const html = await (await fetch(link)).text();
  const script = await (await fetch(new URL('page.js', link))).text();
  const text = html.split('<form id="').find((form) => form.startsWith(link.pathname.split('/').at(-1)!)) ?? '';
  const labels = [...text.matchAll(/<label(?: class="(\w+)" (hidden))?\s*>[^<]*<input[^>]*?name="(\w+)"/g)].map(
    ([, group, hidden, name]) => {
      const input: Field = {
        value: '',
        checked: false,
        required: false,
        addEventListener: (_, listener) => (input.change = listener),
        focus: () => undefined,
      };
      return { group, hidden: hidden !== undefined, name: name!, querySelector: () => input };
    },
  );
  const elements = Object.fromEntries(labels.map((label) => [label.name, label.querySelector()]));
  const message = { textContent: '' };
  let submit: (event: object) => Promise<void> = () => Promise.reject(new Error('no listener'));
  const form = {
    elements,
    hidden: true,
    querySelector: () => ({ disabled: false }),
    querySelectorAll: (selector: string) => labels.filter(({ group }) => `.${group ?? ''}` === selector),
    addEventListener: (_: string, listener: typeof submit) => (submit = listener),
  };
  const document = { getElementById: (id: string) => (id === 'message' ? message : form) };
  const request = (path: string, init: RequestInit) => fetch(new URL(path, link), init);
  runInNewContext(script, { document, location: link, URLSearchParams, fetch: request });
  return {
    fields: elements,
    isShown: (group: string) => labels.every((label) => label.group !== group || !label.hidden),
    isDone: () => form.hidden,
    async press(): Promise<string> {
      await submit({ preventDefault: () => undefined });
      return message.textContent;
    },
  };
}

async function invite(email: string): Promise<{ mail: Mail; name: string }> {
  const tenant = await cluster.tenant();
  const invited = await post(`tenants/${tenant.id}/invitations`, { email, role: 'viewer' }, tenant.owner.token);
  expect(invited.status).toBe(201);
  const mail = (await cluster.mails(email)).find(({ link }) => link.pathname === '/mail/accept-invitation');
  const listed = await cluster.rest('GET', '/v1/tenants', { key: tenant.owner.token });
  return { mail: mail!, name: listed.body.data.tenants[0].name };
}

test('a new user registers, verifies the address and becomes a member', async () => {
  const email = `page.${process.pid}@example.com`;
  const { mail, name } = await invite(email);
  const page = await open(mail.link);
  const { is_new: isNew, ...texts } = page.fields;
  expect([page.isShown('new'), page.isShown('code'), isNew!.checked]).toEqual([false, false, false]);
  isNew!.checked = true;
  isNew!.change!();
  expect([page.isShown('new'), texts['first_name']!.required, texts['last_name']!.required]).toEqual([true, true, true]);
  const given = { first_name: 'Grace', last_name: 'Hopper', email, password: 'short' };
  for (const [field, value] of Object.entries(given)) texts[field]!.value = value;
  expect(await page.press()).toBe('password must have at least 8 characters');
  texts['password']!.value = 'correct horse';
  expect(await page.press()).toMatch(/^Your email address is not verified yet\. Open the link/);
  expect([page.isDone(), page.isShown('new')]).toEqual([false, false]);
  const verification = (await cluster.mails(email, 2)).find(({ link }) => link.pathname === '/mail/verify-email');
  const other = await open(verification!.link);
  expect([await other.press(), other.isDone()]).toEqual([`The address ${email} is verified.`, true]);
  expect([await page.press(), page.isDone()]).toEqual([`You are a member of ${name}.`, true]);
  expect(await page.press()).toBe('the token is unknown, used or expired');
});

test('a password is reset, and an error is shown as the API says it', async () => {
  const ada = await cluster.signUp();
  await post('auth/password/forgot', { email: ada.email });
  const [mail] = await cluster.mails(ada.email);
  const page = await open(mail!.link);
  page.fields['password']!.value = 'tall giraffe 7';
  expect([await page.press(), page.isDone()]).toEqual(['The password is set. Log in with it.', true]);
  expect((await post('auth/login', { email: ada.email, password: 'tall giraffe 7' })).status).toBe(200);
  expect(await page.press()).toBe('the token is unknown, used or expired');
});
