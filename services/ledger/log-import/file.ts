// Imports a file with a whole log under the id that it has, for the operator: every hash stays.
import { createReadStream } from 'node:fs';
import type pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { StartFailure } from '../../platform/lifetime.ts';
import { Refusal } from '../accounting.ts';
import { endOfDeleted } from '../audit/operator.ts';
import { checkLog } from './check.ts';
import { writeLog, type WrittenHead } from './write.ts';

/** Checks an export of events and writes it as the log of its tenant (UUID). Throws {@link StartFailure} with what is wrong, and where. */
export async function importFile(client: pg.Client, tenant: string, file: string): Promise<WrittenHead> {
  const open = () => createReadStream(file);
  try {
    const checked = await checkLog(open);
    if (checked.tenant !== tenant)
      throw new StartFailure(`${file} is the log of ${toId('tenant', checked.tenant)}: --tenant must name that`);
    if (await endOfDeleted(client, tenant)) throw new StartFailure(`${toId('tenant', tenant)} was deleted: its id can't be used again`);
    await client.query('begin');
    const head = await writeLog(client, { tenant, open, checked, importer: null });
    await client.query('commit');
    return head;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error instanceof Refusal ? new StartFailure(`${file}: ${error.message}`) : error;
  }
}
