// The drill of `npm run restore-drill`: a restore to a moment, on Debian's PostgreSQL, over Kafka where there is one.
import { installedPrograms } from './proof/restore/archiving-server.ts';
import { prove } from './proof/restore/restore.ts';

(installedPrograms() === null ? test.skip : test)(
  'a restore to a moment has every posting that was answered before it and none that was sent after it (needs a PostgreSQL server)',
  async () => {
    const lines: string[] = [];
    const isProved = await prove({ say: (line) => lines.push(line) });
    if (!isProved) throw new Error(lines.join('\n'));
    // Over gRPC nothing is published again.
    expect(lines.filter((line) => line.startsWith('ok ')).length).toBeGreaterThanOrEqual(14);
  },
  400_000,
);
