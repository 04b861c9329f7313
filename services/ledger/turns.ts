// Work that is done one at a time for each tenant, and takes nothing that others need while it waits.

/** Whose turn it is. */
export class Turns {
  private readonly last = new Map<string, Promise<unknown>>();

  /**
   * Does the work when what was asked for before under the same name has ended, however it did; answers or throws what the work does. `signal`
   * tells that the caller is gone: then it is not begun, and the signal's reason is thrown.
   */
  async take<Result>(name: string, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const before = this.last.get(name) ?? Promise.resolve();
    const mine = before.then(() => {
      signal.throwIfAborted();
      return work();
    });
    const ended = mine.then(
      () => undefined,
      () => undefined,
    );
    this.last.set(name, ended);
    try {
      return await mine;
    } finally {
      if (this.last.get(name) === ended) this.last.delete(name);
    }
  }
}
