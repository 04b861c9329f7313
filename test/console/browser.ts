// Chromium for the console's tests: finds it, opens pages, and collects what a page must never do.
import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const names = ['chromium', 'chromium-browser', 'google-chrome'];
const directories = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin'];

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The browser's program; undefined: this machine has none. */
export const chromiumPath = names.flatMap((name) => directories.map((directory) => join(directory, name))).find(isExecutable);

/** Starts Chromium without a window. */
export function startBrowser(): Promise<Browser> {
  // Containers of CI run as root, where Chromium has no sandbox.
  return chromium.launch({ executablePath: chromiumPath ?? '', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** A browser's profile, and what its pages did wrong. */
export interface Profile {
  context: BrowserContext;
  /** Violations of the policy, errors and warnings in the console, exceptions. */
  faults: string[];
}

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** A new profile. `expected`: errors in the console that the test provokes. */
export async function newProfile(
  browser: Browser,
  { expected, width = 1280, height = 800 }: { expected?: RegExp; width?: number; height?: number } = {},
): Promise<Profile> {
  const settings = { locale: 'en-GB', timezoneId: 'Africa/Lagos', reducedMotion: 'reduce' } as const;
  const context = await browser.newContext({ ...settings, viewport: { width, height } });
  const faults: string[] = [];
  await context.exposeBinding('reportViolation', (_, text: string) => faults.push(text));
  await context.addInitScript({ path: axe });
  await context.addInitScript({ path: join(import.meta.dirname, 'in-page.js') });
  const fault = (text: string) => {
    if (expected?.test(text) !== true) faults.push(text);
  };
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') fault(`console: ${message.text()} ${message.location().url}`);
  });
  context.on('weberror', (error) => fault(`exception: ${error.error().stack ?? ''}`));
  return { context, faults };
}

/** Calls a function of `in-page.js`. By the debugger, because the page's policy forbids evaluation. */
async function inPage<Value>(page: Page, ...calls: string[]): Promise<Value[]> {
  const session = await page.context().newCDPSession(page);
  const values: Value[] = [];
  try {
    for (const call of calls) {
      const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
        expression: `inPage.${call}`,
        awaitPromise: true,
        returnByValue: true,
      });
      if (exceptionDetails) throw new Error(`${call}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
      values.push(result.value as Value);
    }
  } finally {
    await session.detach();
  }
  return values;
}

/** What axe finds, in light and, where only colours differ, in dark. */
export async function axeFaults(page: Page): Promise<string[]> {
  const [light = []] = await inPage<string[]>(page, 'axe(false)');
  await page.emulateMedia({ colorScheme: 'dark' });
  const [dark = []] = await inPage<string[]>(page, 'axe(true)');
  await page.emulateMedia({ colorScheme: 'light' });
  return [...light, ...dark.map((each) => `dark: ${each}`)];
}

/** What the Tab key does not reach, and what it reaches without showing the focus. */
export async function keyboardFaults(page: Page): Promise<string[]> {
  let faults: string[] = [];
  // Once more where something was rendered anew meanwhile.
  for (let tries = 0; tries < 2; tries += 1) {
    const [count = 0] = await inPage<number>(page, 'noteReachable()');
    for (let presses = 0; presses < count + 5; presses += 1) await page.keyboard.press('Tab');
    [faults = []] = await inPage<string[]>(page, 'focusFaults()');
    if (faults.length === 0) break;
  }
  return faults;
}

/** Pixels by which a page is wider than a window of 360 pixels. */
export async function overflowAt360(page: Page): Promise<number> {
  const size = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 800 });
  let pixels = 0;
  // Tables are laid out anew some moments later.
  for (let tries = 0; tries < 20; tries += 1) {
    [pixels = 0] = await inPage<number>(page, 'overflow()');
    if (pixels === 0) break;
    await pause(100);
  }
  if (size) await page.setViewportSize(size);
  return pixels;
}
