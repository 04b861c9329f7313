// Summary of a CPU profile: which functions and which packages the time goes to.
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../../deploy/local/plan.ts';

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
}

/** The functions and packages with the largest share of a process's CPU time (own time, without what they call), as text. */
export function printProfile(directory: string, process: string): string {
  const file = join(directory, `${process}.cpuprofile`);
  if (!existsSync(file)) return `\n${process}: no profile`;
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile;
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const functions = new Map<string, number>();
  const packages = new Map<string, number>();
  let busy = 0;
  samples.forEach((id, place) => {
    const frame = frames.get(id);
    const time = timeDeltas[place] ?? 0;
    if (!frame || frame.functionName === '(idle)') return;
    busy += time;
    const file = placeOf(frame.url);
    const name = frame.functionName || '(anonymous)';
    add(functions, file === '' ? name : `${name} ${file}:${frame.lineNumber + 1}`, time);
    add(packages, file === '' ? name : packageOf(file), time);
  });
  const top = (times: Map<string, number>, count: number) =>
    [...times]
      .sort(([, one], [, other]) => other - one)
      .slice(0, count)
      .map(([name, time]) => `  ${((100 * time) / busy).toFixed(1).padStart(5)} %  ${name}`)
      .join('\n');
  return `\n${process}: ${(busy / 1e6).toFixed(1)} s of CPU\n by package\n${top(packages, 15)}\n by function\n${top(functions, 30)}`;
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time);
}

function placeOf(url: string): string {
  if (!url.startsWith('file:')) return url;
  const path = fileURLToPath(url);
  const inPackages = path.lastIndexOf('/node_modules/');
  return inPackages < 0 ? relative(root, path) : path.slice(inPackages + '/node_modules/'.length);
}

function packageOf(file: string): string {
  if (/^(gateway|services|proto)\//.test(file)) return file.split('/').slice(0, -1).join('/');
  if (file.startsWith('node:')) return file.split('/').slice(0, 2).join('/');
  return file
    .split('/')
    .slice(0, file.startsWith('@') ? 2 : 1)
    .join('/');
}
