// The writing of a change for ledgers of before trace contexts goes: a second writer that nobody calls is one that nobody watches.
import { Migration } from '@mikro-orm/migrations';

export class OneWriter extends Migration {
  override up(): void {
    this.addSql(`do $$
      declare
        former regprocedure;
      begin
        for former in select oid from pg_proc where proname = 'write_batch' and not 'l_traceparent' = any (proargnames) loop
          execute format('drop function %s', former);
        end loop;
      end $$`);
    this.addSql('drop function must_be(text, text, text)');
  }
}
