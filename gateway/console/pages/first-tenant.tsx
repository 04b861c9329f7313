// Creating a tenant, with its chart of accounts.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import { Label, RadioButton, RadioField, RadioGroup } from 'react-aria-components';
import { useLocation } from 'wouter';
import type { BusinessType } from '../../clients/typescript/ledger.ts';
import { Button } from '../parts/button.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { ledger, ledgerOf } from '../session.ts';
import { words } from '../words.ts';
import { Gate } from './gate.tsx';

const text = words.firstTenant;
const businesses = Object.keys(text.businesses) as (keyof typeof text.businesses)[];

const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 60)
    .replaceAll(/^-|-$/g, '');

/** `/console/new-tenant`. */
export function FirstTenantPage(): ReactElement {
  const [name, setName] = useState('');
  const [ownSlug, setOwnSlug] = useState<string>();
  const [business, setBusiness] = useState<BusinessType>('wallet');
  const [withChart, setWithChart] = useState(true);
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const slug = ownSlug ?? slugOf(name);
  const create = useMutation({
    mutationFn: async () => {
      const { tenant } = await ledger.tenants.create({ name, slug, business_type: business });
      // A chart that fails can be made on the overview.
      if (withChart)
        await ledgerOf(tenant.slug)
          .accounts.setUp({ business_type: business })
          .catch(() => undefined);
      await client.invalidateQueries({ queryKey: ['tenants'] });
      navigate(`/t/${tenant.slug}`);
    },
  });
  return (
    <Gate title={text.title} lead={text.lead}>
      <Form
        onSubmit={() => create.mutate()}
        error={create.error}
        actions={
          <Button kind="primary" type="submit" isPending={create.isPending}>
            {text.action}
          </Button>
        }
      >
        <TextField label={text.name} name="name" value={name} onChange={setName} maxLength={255} isRequired autoFocus />
        <TextField
          label={text.slug}
          name="slug"
          value={slug}
          onChange={setOwnSlug}
          minLength={3}
          maxLength={63}
          hint={text.slugHint}
          isRequired
          isMono
        />
        <RadioGroup className="choices" value={business} onChange={(value) => setBusiness(value as BusinessType)}>
          <Label>{text.business}</Label>
          {businesses.map((each) => (
            <RadioField key={each} value={each}>
              <RadioButton className="choice">
                <strong>{text.businesses[each][0]}</strong>
                <span>{text.businesses[each][1]}</span>
              </RadioButton>
            </RadioField>
          ))}
          <p className="hint">{text.businessHint}</p>
        </RadioGroup>
        <Checkbox label={text.chart} isSelected={withChart} onChange={setWithChart} />
        <p className="hint">{text.chartHint}</p>
      </Form>
      <p className="hint">{text.invited}</p>
    </Gate>
  );
}
