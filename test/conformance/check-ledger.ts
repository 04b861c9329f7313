// Runs the checks against a ledger, one after another, each in books of its own.
import { capabilities, type Ledger } from './adapter.ts';
import { holdChecks } from './hold-checks.ts';
import { keyChecks } from './key-checks.ts';
import { moneyChecks } from './money-checks.ts';
import { CheckRun, type Check } from './check-run.ts';

/** All checks, in order. */
export const checks: Check[] = [...keyChecks, ...moneyChecks, ...holdChecks];

/** The result of a check. */
export interface Finding {
  check: Check;
  outcome: 'ok' | 'broken' | 'not offered';
  /** What was wrong, or why it is not offered. */
  seen: string[];
  /** The requests of the check as a shell script. */
  script: string;
}

/**
 * Checks a ledger. The same seed makes the same choices, also for a part of the checks. `takeScript` returns the requests since its last call.
 * A check that cannot be carried out is broken.
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
      const reasons = lacking.map((each) => `${capabilities[each]}: ${ledger.lacks[each]}`);
      findings.push({ check, outcome: 'not offered', seen: reasons, script: '' });
      continue;
    }
    const run = new CheckRun(ledger, `${seed}/${check.name}`);
    try {
      await check.run(run);
    } catch (error) {
      run.wrong(`it could not be carried out: ${(error as Error).message}`);
    }
    const outcome = run.seen.length === 0 ? 'ok' : 'broken';
    findings.push({ check, outcome, seen: run.seen, script: takeScript() });
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
