// Asking a house again until it answers as it should, and reading its figures.
import { setTimeout as pause } from 'node:timers/promises';
import type { House } from './house.ts';

/** Asks again until the answer is as wanted. */
export async function until<Result>(ask: () => Promise<Result>, wanted: (result: Result) => boolean, seconds = 45): Promise<Result> {
  for (const end = Date.now() + seconds * 1000; ; await pause(20)) {
    const result = await ask();
    if (wanted(result)) return result;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${JSON.stringify(result).slice(0, 300)}`);
  }
}

/** The sum of a figure of a process over all its labels, or those that hold `label`. */
export async function figureOf(house: House, name: 'gateway' | 'identity', figure: string, label = ''): Promise<number> {
  const text = await (await fetch(`${house.opsUrl(name)}/metrics`)).text();
  const lines = text.split('\n').filter((each) => each.startsWith(figure) && each.includes(label));
  return lines.reduce((sum, each) => sum + Number(each.slice(each.lastIndexOf(' ') + 1)), 0);
}
