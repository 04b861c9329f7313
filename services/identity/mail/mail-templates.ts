// The texts of mails, as plain text and HTML, each with one link.
import type { MailKind } from './mails.ts';

/** A mail's text. */
export interface MailText {
  subject: string;
  text: string;
  html: string;
}

const actions = { verification: 'verify-email', reset: 'reset-password', invitation: 'accept-invitation' } as const;

// No name of a user is in the first two: anyone can register with another person's address and choose the name.
const texts: Record<MailKind, (data: Record<string, string>) => { subject: string; before: string; after: string }> = {
  verification: () => ({
    subject: 'Verify your email address',
    before: 'Open this link to verify your email address. It is valid for 24 hours.',
    after: 'If you did not ask for this mail, ignore it.',
  }),
  reset: () => ({
    subject: 'Reset your password',
    before: 'Open this link to set a new password. It is valid for one hour, and once.',
    after: 'If you did not ask for this mail, ignore it. Your password stays as it is.',
  }),
  invitation: ({ tenant = '', role = '', invited_by = '' }) => ({
    subject: `Invitation to ${tenant}`,
    before: `${invited_by} invites you to the ledger of ${tenant} as ${role}. Open this link to accept. It is valid for 7 days.`,
    after: 'If you do not know the sender, ignore this mail.',
  }),
};

/** The text of a mail whose link carries the token. `publicUrl`: base of the link. */
export function renderMail(kind: MailKind, data: Record<string, string>, publicUrl: string, token: string): MailText {
  const link = `${publicUrl}/mail/${actions[kind]}?token=${token}`;
  const names = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, singleLine(value)]));
  const { subject, before, after } = texts[kind](names);
  const [first, address, last] = [before, link, after].map(escapeHtml);
  return {
    subject,
    text: `${before}\n\n${link}\n\n${after}\n`,
    html: `<!doctype html><html lang="en"><body><p>${first}</p><p><a href="${address}">${address}</a></p><p>${last}</p></body></html>\n`,
  };
}

/** A name that begins no line and no link of its own. */
function singleLine(value: string): string {
  return value.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').replaceAll('://', ': //');
}

function escapeHtml(value: string): string {
  return value.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
