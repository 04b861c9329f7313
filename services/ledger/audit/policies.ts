// Checks that row-level security is as the migrations made it: it is what keeps tenants apart.
import type pg from 'pg';
import type { Findings } from './findings.ts';
import { relayTables, securedTables } from './projections.ts';

/**
 * Reports row-level security that differs from the migrations' and so may hide rows from the services or show them another tenant's.
 * Policies for roles that only read, such as an auditor's, are allowed.
 */
export async function checkRowSecurity(client: pg.ClientBase, findings: Findings): Promise<void> {
  const off = await client.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relname = any($1)
      and not (relrowsecurity and relforcerowsecurity) order by 1`,
    [securedTables],
  );
  for (const { name } of off.rows) findings.add(`row-level security of ${name} is not enabled and forced`);
  const { rows } = await client.query<{ table: string; policy: string; state: 'missing' | 'unknown' | 'changed' }>(
    `with wanted as (
        select relname, polname from unnest($1::text[]) as relname, unnest(array['tenant', 'operator', 'relay', 'due', 'runner', 'indexer']) as polname
        where case polname when 'relay' then relname = any($2) when 'due' then relname in ('holds', 'freezes') when 'runner' then relname = 'jobs'
          when 'indexer' then relname in ('heads', 'books', 'search_indexes', 'freezes', 'verifications', 'trees', 'checkpoints') else true end),
      policies as (
        select c.relname, p.polname, polroles, polpermissive, polcmd, pg_get_expr(polqual, polrelid) as qual,
          (polcmd, polpermissive, polroles, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))::text as definition
        from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace = 'public'::regnamespace and c.relname = any($1)),
      found as (
        select relname, polname, definition, polroles, polpermissive, w is null as is_unknown,
          case
            -- Those of the loops of holds, jobs and indexes show what the relay's does, by a setting of their own and to readers only.
            when polname in ('due', 'runner', 'indexer') then not (polcmd = 'r' and polpermissive and polroles = '{0}' and exists (
              select from policies relay where relay.polname = 'relay' and replace(relay.qual, '''app.relay''', '''app.' || found.polname || '''') = found.qual))
            -- A policy of the migrations has the same definition on each table, so the majority is right.
            else 2 * count(*) over (partition by polname, relname = any($2), definition)
              <= count(definition) over (partition by polname, relname = any($2))
          end as is_changed
        from wanted w full join policies as found using (relname, polname)),
      -- Roles that may write the log, but for administrators who may write all data of a server.
      writers as (
        select r.oid as role, pg_has_role(r.oid, relowner, 'usage') as is_owner from pg_class c, pg_roles r
        where c.oid = 'public.log'::regclass and not (rolsuper or rolbypassrls) and (rolname = current_user or exists (
          select from aclexplode(coalesce(relacl, acldefault('r', relowner))) as acl
          where privilege_type = 'INSERT' and (grantee = 0 or pg_has_role(r.oid, grantee, 'usage')))))
      select relname as table, polname as policy,
        case when definition is null then 'missing' when is_unknown then 'unknown' else 'changed' end as state
      from found
      where case when definition is null then true when not is_unknown then is_changed
        -- It binds a writer. The owner sees all rows anyway, so only what hides rows from it counts.
        else exists (
          select from unnest(polroles) as granted (role), writers
          where (granted.role = 0 or pg_has_role(writers.role, granted.role, 'usage')) and (not is_owner or not polpermissive)) end
      order by 1, 2`,
    [securedTables, relayTables],
  );
  for (const { table, policy, state } of rows) {
    findings.add(
      {
        missing: `${table} has no policy ${policy}`,
        unknown: `${table} has the policy ${policy}, which no migration made`,
        changed: `${table}: the policy ${policy} is not what it is elsewhere`,
      }[state],
    );
  }
}
