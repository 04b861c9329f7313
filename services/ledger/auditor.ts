// Entry point of the auditor: reports, jobs and exports over the ledger's database, next to postings.
import { StartFailure, run } from '../platform/lifetime.ts';
import { Settings } from '../platform/settings.ts';

await run(async (lifetime) => {
  const args = process.argv.slice(2);
  if (args.length > 0) throw new StartFailure(`unknown command ${args.join(' ')}: the auditor takes none`);
  const { serveAuditor } = await import('./auditor/serving.ts');
  await serveAuditor(new Settings(process.env), lifetime);
});
