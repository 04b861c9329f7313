// What the benchmark is asked for on its command line.
import { parseArgs } from 'node:util';

/** Parts that can be run alone. */
const parts = ['ceiling', 'rest', 'grpc', 'reads'] as const;

export type Part = (typeof parts)[number];

/** What is measured, and how long. */
export interface Options {
  /** Webhooks are measured, and nothing else. */
  webhooks: boolean;
  /** Length of one window. */
  seconds: number;
  /** How often each window is measured; the windows take turns. */
  rounds: number;
  only: Part[];
  /** Connections of the windows over REST. */
  connections: number[];
  ledgers: number;
  /** Whether the log and everything derived from it is verified at the end, which takes about a minute for a million postings. */
  verify: boolean;
  /** Directory to put the data in; undefined: the system's temporary directory. */
  data: string | undefined;
  /** Where CPU profiles go, and of which processes. */
  profiles: string | undefined;
  profiled: string[];
}

export const usage = `npm run bench -- [webhooks] [options]
  webhooks        measures webhooks, over gRPC and over Kafka, and nothing else
  --seconds N     length of one window, default 5
  --rounds N      how often each window is measured, in turns; medians are printed, default 3
  --only PART     ceiling, rest, grpc or reads; may be repeated
  --connections N of the windows over REST; may be repeated, default 1, 16, 64 and 256
  --ledgers N     replicas of the ledger, default 1
  --verify        verify log and books at the end (about a minute for a million postings)
  --data DIR      where the databases are made, default the temporary directory
  --cpu-prof DIR  write CPU profiles there and print their summaries
  --profile NAME  process to profile (gateway, ledger, identity); may be repeated, default gateway and ledger`;

/** Reads the command line. Throws an error to print where it does not fit. */
export function readOptions(args: string[]): Options {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '5' },
      rounds: { type: 'string', default: '3' },
      only: { type: 'string', multiple: true },
      connections: { type: 'string', multiple: true, default: ['1', '16', '64', '256'] },
      ledgers: { type: 'string', default: '1' },
      verify: { type: 'boolean', default: false },
      data: { type: 'string' },
      'cpu-prof': { type: 'string' },
      profile: { type: 'string', multiple: true },
    },
  });
  const stray = positionals.find((each) => each !== 'webhooks');
  if (stray !== undefined) throw new Error(`there is webhooks, or none, not ${stray}`);
  return {
    webhooks: positionals.length > 0,
    seconds: whole('seconds', values.seconds),
    rounds: whole('rounds', values.rounds),
    only: values.only?.map(part) ?? [...parts],
    connections: values.connections.map((each) => whole('connections', each)),
    ledgers: whole('ledgers', values.ledgers),
    verify: values.verify,
    data: values.data,
    profiles: values['cpu-prof'],
    profiled: values.profile ?? ['gateway', 'ledger'],
  };
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} must be a whole number from 1, not ${text}`);
  return value;
}

function part(text: string): Part {
  const found = parts.find((each) => each === text);
  if (!found) throw new Error(`--only must be one of ${parts.join(', ')}, not ${text}`);
  return found;
}
