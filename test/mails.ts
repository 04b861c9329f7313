// Reads the mails that a deployment has written as files.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime, { type Email } from 'postal-mime';
import { until } from './polling.ts';

/** A mail with its link. */
export interface Mail extends Email {
  /** Name of its file. */
  file: string;
  link: URL;
  /** The `token` of the link. */
  token: string;
}

const parsed = new Map<string, Promise<Mail>>();

/** The mails to an address, oldest first. Waits until there are as many as `count`. */
export async function mailsIn(directory: string, email: string, count = 1): Promise<Mail[]> {
  return until(
    async () => {
      const files = (await readdir(directory)).filter((name) => name.endsWith('.eml')).sort();
      const mails = await Promise.all(files.map((name) => mailOf(join(directory, name), name)));
      return mails.filter((mail) => mail.to?.some(({ address }) => address === email));
    },
    (mails) => mails.length >= count,
  );
}

/** A mail of its text as it was sent. */
export async function parseMail(source: string | Buffer, file = ''): Promise<Mail> {
  const mail = await PostalMime.parse(source);
  const link = new URL(/https?:\S+/.exec(mail.text ?? '')?.[0] ?? '');
  return { ...mail, file, link, token: link.searchParams.get('token') ?? '' };
}

function mailOf(path: string, name: string): Promise<Mail> {
  const known = parsed.get(path) ?? readFile(path).then((source) => parseMail(source, name));
  parsed.set(path, known);
  return known;
}
