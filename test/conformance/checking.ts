// Runs the checks against a ledger, one after the other, each in books of its own.
import { notions, type Ledger } from './adapter.ts';
import { keyChecks } from './checks/keys.ts';
import { moneyChecks } from './checks/money.ts';
import { Trial, type Check } from './trial.ts';

/** All of them, in the order in which they run. */
export const checks: Check[] = [...keyChecks, ...moneyChecks];

/** What one check came to. */
export interface Finding {
  check: Check;
  outcome: 'ok' | 'broken' | 'not offered';
  /** What was seen wrong, or why it is not offered; empty where all was well. */
  seen: string[];
  /** The requests of the check as a shell script; empty where the adapter sends none. */
  script: string;
}

/**
 * Checks a ledger. The same seed makes the same choices, also where only some of the checks run. `takeScript` hands over the requests since
 * it was last called. A check that can't be carried out, for instance because an account can't be opened, is broken: nothing is passed
 * that was not seen.
 */
export async function checkLedger(
  ledger: Ledger,
  { seed, only, takeScript = () => '' }: { seed: number; only?: Check[]; takeScript?: () => string },
): Promise<Finding[]> {
  const findings: Finding[] = [];
  takeScript();
  for (const check of only ?? checks) {
    const lacking = check.needs.filter((each) => ledger.lacks[each] !== undefined);
    if (lacking.length > 0) {
      const seen = lacking.map((each) => `${notions[each]}: ${ledger.lacks[each]}`);
      findings.push({ check, outcome: 'not offered', seen, script: '' });
      continue;
    }
    const trial = new Trial(ledger, `${seed}/${check.name}`);
    try {
      await check.run(trial);
    } catch (error) {
      trial.wrong(`it could not be carried out: ${(error as Error).message}`);
    }
    const outcome = trial.seen.length === 0 ? 'ok' : 'broken';
    findings.push({ check, outcome, seen: trial.seen, script: takeScript() });
  }
  return findings;
}

/** A table in Markdown, and the count of each outcome. */
export function table(ledger: Ledger, findings: Finding[]): string {
  const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
  const rows = findings.map(({ check, outcome, seen }) => {
    const more = seen.length > 3 ? [`and ${seen.length - 3} more`] : [];
    return `| ${check.name} | ${check.holds} | ${outcome} | ${cell([...seen.slice(0, 3), ...more].join('; '))} |`;
  });
  const count = (outcome: Finding['outcome']) => findings.filter((each) => each.outcome === outcome).length;
  return [
    '| check | what must hold | | seen |',
    '|---|---|---|---|',
    ...rows,
    '',
    `${ledger.name}: ${count('ok')} ok, ${count('broken')} broken, ${count('not offered')} not offered`,
  ].join('\n');
}
