// What a tenant without accounts shows: the chart of its kind of business, by one click.
import type { ReactElement } from 'react';
import { useTenant, useWrite } from '../tenant.tsx';
import { words } from '../words.ts';
import { Button } from './button.tsx';
import { Empty } from './problem.tsx';
import { toast } from './toast.tsx';

/** Creates the chart of accounts. */
export function NoChart(): ReactElement {
  const { tenant } = useTenant();
  const setUp = useWrite(
    (ledger) => ledger.accounts.setUp({ business_type: tenant.business_type }),
    ({ accounts }) => toast(words.chart.done(accounts.length)),
  );
  return (
    <Empty
      title={words.chart.title}
      action={
        <Button kind="primary" needs="accounts:write" onPress={() => setUp.mutate(undefined)} isPending={setUp.isPending}>
          {words.chart.action}
        </Button>
      }
    >
      {setUp.error ? setUp.error.message : words.chart.hint(words.firstTenant.businesses[tenant.business_type][0])}
    </Empty>
  );
}
