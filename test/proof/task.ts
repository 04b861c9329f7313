// What a proof is asked for and what it answers.

/** The command line of a proof. */
export interface Task {
  /** The same seed makes the same choices. */
  seed: number;
  minutes: number;
  /** Only these faults, by name; only of `faults`. */
  faults?: string[] | undefined;
  say: (line: string) => void;
}

/** A proof. Prints what is wrong and resolves to whether nothing is. */
export type Prove = (task: Task) => Promise<boolean>;

/** The command line is wrong; the message says how, in one line. */
export class UsageError extends Error {}
