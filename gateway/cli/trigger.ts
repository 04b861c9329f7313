// `trigger`: a test delivery to the tenant's webhook. `open`: the console in a browser.
import { spawn } from 'node:child_process';
import { Argument, type Command } from 'commander';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import type { CommonOptions } from './session.ts';
import { eventTypes } from './event-lines.ts';

/** Adds the command. */
export function addTrigger(program: Command, context: Context): void {
  const trigger = program
    .command('trigger')
    .helpGroup('Events:')
    .description('Send a test delivery to the webhook of the tenant: nothing happens in the ledger.')
    .addArgument(new Argument('[type]', 'type of the event').choices([...eventTypes, 'test.webhook']).default('test.webhook'));
  withExamples(withCommonOptions(trigger), 'ledger trigger', 'ledger trigger transaction.posted');
  trigger.action(async (type: string, options: CommonOptions) => {
    const ledger = context.session(options).tenantLedger;
    const tested = await ledger.webhooks.test({ event_type: type as 'test.webhook' });
    context.output(options).item({ ...tested });
  });
}

/** Adds the command. */
export function addOpen(program: Command, context: Context): void {
  const open = program
    .command('open')
    .helpGroup('Session:')
    .description('Open the console of the tenant in a browser, and print its address.')
    .argument('[page]', 'such as accounts/CUST-0001, transactions, reports/trial-balance', '')
    .option('--no-browser', 'only print the address');
  withExamples(withCommonOptions(open), 'ledger open', 'ledger open transactions', 'ledger open --no-browser');
  open.action((page: string, options: CommonOptions & { browser: boolean }) => {
    const { url, tenant } = context.session(options);
    const address = `${url}/console/t/${tenant}/${page.replace(/^\//, '')}`;
    context.output(options).text(`${address}\n`);
    if (!options.browser) return;
    const [command, ...args] = browsers[process.platform] ?? ['xdg-open'];
    // The address is printed; without a browser, that is all.
    spawn(command as string, [...args, address], { detached: true, stdio: 'ignore' })
      .on('error', () => undefined)
      .unref();
  });
}

const browsers: Partial<Record<NodeJS.Platform, string[]>> = { darwin: ['open'], win32: ['rundll32', 'url.dll,FileProtocolHandler'] };
