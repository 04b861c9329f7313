// CPU time and memory of processes, from Linux's /proc.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { BenchCluster } from './cluster.ts';

/** CPU time used so far, microseconds, by name. */
export type CpuTimes = Record<string, number>;

/** Peak memory, MiB, by name. */
export type MemoryPeaks = Record<string, number>;

/** Whether this system has /proc; without it every figure is missing. */
export const usageIsKnown = existsSync('/proc/self/stat');

// Linux counts CPU time in hundredths of a second in /proc, on every architecture that Node runs on.
const microsecondsPerTick = 10_000;

/** Measures the processes of a cluster. */
export class Usage {
  private readonly processes: Record<string, number>;
  private readonly postmaster: number;
  private ownMemory = 0;
  private wholeMemory = 0;
  private readonly sampler: NodeJS.Timeout | undefined;

  constructor({ pids, postmaster }: Pick<BenchCluster, 'pids' | 'postmaster'>) {
    this.processes = pids;
    this.postmaster = postmaster;
    if (usageIsKnown) this.sampler = setInterval(() => this.sampleMemory(), 500).unref();
  }

  /** CPU time so far: each process by its name, `postgres` with all its children, `load` (this process and the load tools it ran). */
  cpu(): CpuTimes {
    if (!usageIsKnown) return {};
    const times: CpuTimes = {};
    for (const [name, pid] of Object.entries(this.processes)) times[name] = stat(pid)?.own ?? 0;
    const postmaster = stat(this.postmaster);
    // Ended children are included in the postmaster's count of its children.
    times['postgres'] = (postmaster?.own ?? 0) + (postmaster?.ended ?? 0);
    for (const { own } of this.servers()) times['postgres'] += own;
    const self = stat(process.pid);
    times['load'] = (self?.own ?? 0) + (self?.ended ?? 0);
    return times;
  }

  /**
   * Peaks of resident memory so far, by process. `postgres process`: the largest PostgreSQL process without shared buffers; `postgres in
   * all`: the private memory of its processes plus the shared buffers once. Both are sampled twice a second.
   */
  memory(): MemoryPeaks {
    if (!usageIsKnown) return {};
    const peaks: MemoryPeaks = {};
    for (const [name, pid] of Object.entries(this.processes)) peaks[name] = kibibytes(pid, 'VmHWM') / 1024;
    return { ...peaks, 'postgres process': this.ownMemory / 1024, 'postgres in all': this.wholeMemory / 1024 };
  }

  /** Resident memory now, MiB; `postgres`: the private memory of its processes. */
  resident(): Record<string, number> {
    if (!usageIsKnown) return {};
    const resident: Record<string, number> = {};
    for (const [name, pid] of Object.entries(this.processes)) resident[name] = kibibytes(pid, 'VmRSS') / 1024;
    const servers = [{ pid: this.postmaster }, ...this.servers()];
    return { ...resident, postgres: servers.reduce((sum, { pid }) => sum + kibibytes(pid, 'RssAnon'), 0) / 1024 };
  }

  end(): void {
    clearInterval(this.sampler);
  }

  private sampleMemory(): void {
    let own = 0;
    let shared = 0;
    for (const { pid } of [{ pid: this.postmaster }, ...this.servers()]) {
      const anonymous = kibibytes(pid, 'RssAnon');
      this.ownMemory = Math.max(this.ownMemory, anonymous + kibibytes(pid, 'RssFile'));
      own += anonymous;
      shared = Math.max(shared, kibibytes(pid, 'RssShmem') + kibibytes(pid, 'RssFile'));
    }
    this.wholeMemory = Math.max(this.wholeMemory, own + shared);
  }

  private servers(): Stat[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => stat(Number(name)))
      .filter((each): each is Stat => each?.parent === this.postmaster);
  }
}

/** CPU time between two readings, microseconds by name. */
export function between(before: CpuTimes, after: CpuTimes): CpuTimes {
  return Object.fromEntries(Object.entries(after).map(([name, time]) => [name, time - (before[name] ?? 0)]));
}

interface Stat {
  pid: number;
  parent: number;
  /** Microseconds of this process, and of its children that have ended. */
  own: number;
  ended: number;
}

function stat(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name, in parentheses, may contain anything. After it comes field 3 of proc_pid_stat(5).
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const field = (number: number) => Number(fields[number - 3]);
    return {
      pid,
      parent: field(4),
      own: (field(14) + field(15)) * microsecondsPerTick,
      ended: (field(16) + field(17)) * microsecondsPerTick,
    };
  } catch {
    return undefined;
  }
}

function kibibytes(pid: number, name: string): number {
  try {
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
