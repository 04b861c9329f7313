// Row-level security as the migrations made it, by which services see and change the rows of the tenants they name, and no others.
import type pg from 'pg';
import { relayTables, tenantTables, type Findings } from './operator.ts';

/**
 * Tells of row-level security that is not as the migrations made it: it may show the services less than the owner sees, or another tenant's. What is
 * given to a role that only reads, as an auditor's, is the operator's own business.
 */
export async function checkRowSecurity(client: pg.Client, findings: Findings): Promise<void> {
  const off = await client.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relname = any($1)
      and not (relrowsecurity and relforcerowsecurity) order by 1`,
    [tenantTables],
  );
  for (const { name } of off.rows) findings.add(`row-level security of ${name} is not enabled and forced`);
  const { rows } = await client.query<{ table: string; policy: string; state: 'missing' | 'strange' | 'other' }>(
    `with wanted as (
        select relname, polname from unnest($1::text[]) as relname, unnest(array['tenant', 'operator', 'relay']) as polname
        where polname <> 'relay' or relname = any($2)),
      policies as (
        select c.relname, p.polname, polroles, polpermissive,
          (polcmd, polpermissive, polroles, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))::text as says
        from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace = 'public'::regnamespace and c.relname = any($1)),
      held as (
        select relname, polname, says, polroles, polpermissive, w is null as is_strange,
          -- Those that are ours say the same of each table that a migration made; of another's columns they could not.
          2 * count(*) over (partition by polname, relname = any($2), says) <= count(says) over (partition by polname, relname = any($2)) as is_other
        from wanted w full join policies using (relname, polname)),
      -- Not whoever may write all data of a server, who has a role of his own to do so.
      writers as (
        select r.oid as role, pg_has_role(r.oid, relowner, 'usage') as is_owner from pg_class c, pg_roles r
        where c.oid = 'public.log'::regclass and not (rolsuper or rolbypassrls) and (rolname = current_user or exists (
          select from aclexplode(coalesce(relacl, acldefault('r', relowner))) as acl
          where privilege_type = 'INSERT' and (grantee = 0 or pg_has_role(r.oid, grantee, 'usage')))))
      select relname as table, polname as policy, case when says is null then 'missing' when is_strange then 'strange' else 'other' end as state
      from held
      where case when says is null then true when not is_strange then is_other
        -- It binds whoever was given to write the log, or asks here. Of what is shown but not of what is hidden the owner and his sees all anyway.
        else exists (
          select from unnest(polroles) as given (role), writers
          where (given.role = 0 or pg_has_role(writers.role, given.role, 'usage')) and (not is_owner or not polpermissive)) end
      order by 1, 2`,
    [tenantTables, relayTables],
  );
  for (const { table, policy, state } of rows) {
    findings.add(
      {
        missing: `${table} has no policy ${policy}`,
        strange: `${table} has the policy ${policy}, which no migration made`,
        other: `${table}: the policy ${policy} is not what it is elsewhere`,
      }[state],
    );
  }
}
