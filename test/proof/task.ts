// What every proof is asked for, and answers.

/** What a proof is asked for. */
export interface Task {
  /** The same seed makes the same choices. */
  seed: number;
  minutes: number;
  /** The faults to choose from, by name, instead of all; only of faults. */
  faults?: string[] | undefined;
  /** Where what was made is kept, for a later run to go on with; only some proofs can. */
  data?: string | undefined;
  say: (line: string) => void;
}

/** A proof. Resolves true where everything held, and says what did not. */
export type Prove = (task: Task) => Promise<boolean>;

/** A proof was asked for in a way that can't be: the message, one line, says how it can. */
export class Misuse extends Error {}
