// The colours that the user has chosen, kept in a cookie of the console: nothing is kept in the browser's storage.
import { consolePath } from './base.ts';

/** Light, dark, or what the system says. */
export type Theme = 'system' | 'light' | 'dark';

const seconds = 365 * 86_400;

/** The choice. */
export function readTheme(): Theme {
  const found = /(?:^|; )ledger_theme=(light|dark)/.exec(document.cookie)?.[1];
  return (found as Theme | undefined) ?? 'system';
}

/** Shows these colours, and keeps the choice for a year. */
export function chooseTheme(theme: Theme): void {
  document.cookie = `ledger_theme=${theme}; Max-Age=${theme === 'system' ? 0 : seconds}; Path=${consolePath}; SameSite=Strict`;
  showTheme();
}

/** Shows the colours of the choice. */
export function showTheme(): void {
  const theme = readTheme();
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}
