// Bounds on what is waited for, so that what never comes is told as a fault instead of hanging the proof.

/**
 * What `work` comes to. Rejects where it has come to nothing after so many seconds, with `what` it was; the work itself is not ended.
 */
export async function bounded<Result>(what: string, seconds: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} hung: nothing after ${seconds} s`)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
