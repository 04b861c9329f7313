-- pg_dump (plain, with inserts, without owners) of a ledger whose only migration is 0001-ledger, filled through its own calls.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE DOMAIN public.chart_name AS text
	CONSTRAINT chart_name CHECK ((VALUE = ANY (ARRAY['wallet'::text, 'exchange'::text, 'lending'::text, 'payment_processor'::text, 'other'::text])));
CREATE DOMAIN public.currency_code AS text
	CONSTRAINT currency_code CHECK ((VALUE = ANY (ARRAY['NGN'::text, 'USD'::text, 'EUR'::text, 'GBP'::text])));
CREATE DOMAIN public.entry_side AS text
	CONSTRAINT entry_side CHECK ((VALUE = ANY (ARRAY['debit'::text, 'credit'::text])));
CREATE DOMAIN public.event_hash AS bytea
	CONSTRAINT event_hash CHECK ((octet_length(VALUE) = 32));
CREATE DOMAIN public.event_type AS text
	CONSTRAINT event_type CHECK ((VALUE = ANY (ARRAY['transaction.posted'::text, 'account.created'::text, 'account.updated'::text])));
CREATE DOMAIN public.not_negative AS bigint
	CONSTRAINT not_negative CHECK ((VALUE >= 0));
CREATE DOMAIN public.place AS smallint
	CONSTRAINT place CHECK ((VALUE >= 0));
CREATE DOMAIN public.positive AS bigint
	CONSTRAINT positive CHECK ((VALUE > 0));
CREATE DOMAIN public.request_fingerprint AS bytea
	CONSTRAINT request_fingerprint CHECK ((octet_length(VALUE) = 33));
CREATE DOMAIN public.total AS numeric(38,0)
	CONSTRAINT total CHECK ((VALUE >= (0)::numeric));
CREATE DOMAIN public.trace_parent AS text
	CONSTRAINT trace_parent CHECK ((octet_length(VALUE) = 55));
CREATE FUNCTION public.entries_must_balance() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
      begin
        if exists (
          select from added group by tenant_id, sequence, currency
          having sum(case side when 'debit' then amount else -amount end) <> 0
        ) then
          raise exception 'the entries of a transaction do not balance' using errcode = 'check_violation';
        end if;
        return null;
      end $$;
CREATE FUNCTION public.must_change(expected bigint, changed bigint, what text) RETURNS void
    LANGUAGE plpgsql
    AS $$
      begin
        if changed <> expected then
          raise exception '% of % % were as they had been read', changed, expected, what using errcode = 'serialization_failure';
        end if;
      end $$;
CREATE FUNCTION public.relay_marks_must_rise() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
      begin
        raise exception 'the mark of a tenant can not go back' using errcode = 'check_violation';
      end $$;
CREATE FUNCTION public.write_batch(one_tenant text, all_tenants text, s_tenant uuid[], s_sequence bigint[], s_hash bytea[], s_rebuilt bigint[], h_tenant uuid[], h_from bigint[], h_was bytea[], h_rebuilt bigint[], h_sequence bigint[], h_hash bytea[], h_at double precision[], h_chart text[], o_tenant uuid[], o_until double precision, l_tenant uuid[], l_sequence bigint[], l_event uuid[], l_type text[], l_at double precision[], l_actor text[], l_request text[], l_traceparent text[], l_payload bytea[], l_hash bytea[], t_id uuid[], t_key text[], t_fingerprint bytea[], t_reference text[], t_reverses uuid[], e_row integer[], e_account uuid[], e_currency text[], e_position smallint[], e_side text[], e_amount bigint[], e_after numeric[], b_tenant uuid[], b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[], b_pending_debits numeric[], b_pending_credits numeric[], b_from bigint[], b_version bigint[], b_at double precision[]) RETURNS double precision
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
      declare
        previous_timeout text := current_setting('lock_timeout');
        changed bigint;
        added bigint := 0;
        ignored text;
      begin
        -- If another replica has locked a head, fail after 1 ms: the caller retries on the locking path.
        ignored := set_config('app.tenant', one_tenant, true);
        ignored := set_config('app.tenants', all_tenants, true);
        ignored := set_config('lock_timeout', '1ms', true);
        -- The only lock, before anything else: heads move on condition that they are as cached.
        if cardinality(h_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(h_tenant)) as i,
              lateral (select ctid as row_id from heads where tenant_id = h_tenant[i] offset 0) head)
          update heads set sequence = h_sequence[i], hash = h_hash[i], last_at = to_timestamp(h_at[i] / 1000.0), chart = h_chart[i] from new
          where heads.ctid = row_id and sequence = h_from[i] and hash = h_was[i] and rebuilt = h_rebuilt[i];
          get diagnostics changed = row_count;
          if changed <> cardinality(h_tenant) then perform must_change(cardinality(h_tenant), changed, 'heads'); end if;
        end if;
        ignored := set_config('lock_timeout', previous_timeout, true);
        if cardinality(s_tenant) > 0 then
          select count(*) into changed from unnest(s_tenant, s_sequence, s_hash, s_rebuilt) as cached (t, s, h, r),
            lateral (select from heads where tenant_id = t and sequence = s and hash = h and rebuilt = r offset 0) head;
          if changed <> cardinality(s_tenant) then perform must_change(cardinality(s_tenant), changed, 'heads'); end if;
        end if;
        if cardinality(o_tenant) > 0 then
          insert into relay_marks (tenant_id, sequence, open_until)
          select t, 0, to_timestamp(o_until / 1000.0) from unnest(o_tenant) as opened (t) order by t
          on conflict (tenant_id) do update set open_until = greatest(relay_marks.open_until, excluded.open_until);
        end if;
        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        select l_tenant[i], l_sequence[i], l_event[i], l_type[i], to_timestamp(l_at[i] / 1000.0), l_actor[i], l_request[i], l_traceparent[i],
          l_payload[i], l_hash[i]
        from generate_series(1, cardinality(l_tenant)) as i;
        if cardinality(e_row) > 0 then
          insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
          select l_tenant[i], l_sequence[i], t_id[i], t_key[i], t_fingerprint[i], t_reference[i], t_reverses[i], to_timestamp(l_at[i] / 1000.0)
          from generate_series(1, cardinality(l_tenant)) as i
          where t_id[i] is not null;
          insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
          select l_tenant[e_row[i]], e_account[i], e_currency[i], l_sequence[e_row[i]], e_position[i], e_side[i], e_amount[i], e_after[i]
          from generate_series(1, cardinality(e_row)) as i;
        end if;
        -- Every row must still have the version that was read.
        if cardinality(b_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(b_tenant)) as i,
              lateral (select ctid as row_id from balances
                where tenant_id = b_tenant[i] and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i] offset 0) balance)
          update balances set debits = b_debits[i], credits = b_credits[i], pending_debits = b_pending_debits[i],
            pending_credits = b_pending_credits[i], version = b_version[i], updated_at = to_timestamp(b_at[i] / 1000.0)
          from new where balances.ctid = row_id;
          get diagnostics changed = row_count;
          if 0 = any(b_from) then
            insert into balances (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
            select b_tenant[i], b_account[i], b_currency[i], b_debits[i], b_credits[i], b_pending_debits[i], b_pending_credits[i], b_version[i],
              to_timestamp(b_at[i] / 1000.0)
            from generate_series(1, cardinality(b_tenant)) as i
            where b_from[i] = 0 on conflict do nothing;
            get diagnostics added = row_count;
          end if;
          if changed + added <> cardinality(b_tenant) then perform must_change(cardinality(b_tenant), changed + added, 'balances'); end if;
        end if;
        return extract(epoch from clock_timestamp()) * 1000;
      end $$;
CREATE FUNCTION public.write_batch_of_one(h_tenant uuid, h_from bigint, h_was bytea, h_rebuilt bigint, h_sequence bigint, h_hash bytea, h_at double precision, l_event uuid, l_actor text, l_request text, l_traceparent text, l_payload bytea, t_id uuid, t_key text, t_fingerprint bytea, t_reference text, t_reverses uuid, e_account uuid[], e_currency text[], e_side text[], e_amount bigint[], e_after numeric[], b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[], b_from bigint[]) RETURNS double precision
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
      declare
        previous_timeout text := current_setting('lock_timeout');
        occurred_at timestamptz := to_timestamp(h_at / 1000.0);
        ignored text;
      begin
        ignored := set_config('app.tenant', h_tenant::text, true);
        ignored := set_config('app.tenants', '', true);
        -- The only lock, before anything else; fails after 1 ms where another replica has it.
        ignored := set_config('lock_timeout', '1ms', true);
        update heads set sequence = h_sequence, hash = h_hash, last_at = occurred_at
        where tenant_id = h_tenant and sequence = h_from and hash = h_was and rebuilt = h_rebuilt;
        if not found then perform must_change(1, 0, 'heads'); end if;
        ignored := set_config('lock_timeout', previous_timeout, true);
        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        values (h_tenant, h_sequence, l_event, 'transaction.posted', occurred_at, l_actor, l_request, l_traceparent, l_payload, h_hash);
        insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
        values (h_tenant, h_sequence, t_id, t_key, t_fingerprint, t_reference, t_reverses, occurred_at);
        insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
        select h_tenant, e_account[i], e_currency[i], h_sequence, i - 1, e_side[i], e_amount[i], e_after[i]
        from generate_series(1, cardinality(e_account)) as i;
        -- Every row must still have the version that was read.
        for i in 1 .. cardinality(b_account) loop
          update balances set debits = b_debits[i], credits = b_credits[i], version = b_from[i] + 1, updated_at = occurred_at
          where tenant_id = h_tenant and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i];
          if not found then perform must_change(1, 0, 'balances'); end if;
        end loop;
        return extract(epoch from clock_timestamp()) * 1000;
      end $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.accounts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    type text NOT NULL,
    normal_balance text NOT NULL,
    currency text,
    parent_code text COLLATE pg_catalog."C",
    is_group boolean NOT NULL,
    description text,
    allow_negative boolean NOT NULL,
    status text NOT NULL,
    system boolean NOT NULL,
    metadata text NOT NULL,
    version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT accounts_code_check CHECK ((code ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$'::text)),
    CONSTRAINT accounts_currency_check CHECK ((currency = ANY (ARRAY['NGN'::text, 'USD'::text, 'EUR'::text, 'GBP'::text]))),
    CONSTRAINT accounts_normal_balance_check CHECK ((normal_balance = ANY (ARRAY['debit'::text, 'credit'::text]))),
    CONSTRAINT accounts_status_check CHECK ((status = ANY (ARRAY['active'::text, 'closed'::text]))),
    CONSTRAINT accounts_type_check CHECK ((type = ANY (ARRAY['asset'::text, 'liability'::text, 'equity'::text, 'revenue'::text, 'expense'::text]))),
    CONSTRAINT accounts_version_check CHECK ((version > 0))
);
ALTER TABLE ONLY public.accounts ALTER COLUMN tenant_id SET (n_distinct=-0.001);
ALTER TABLE ONLY public.accounts FORCE ROW LEVEL SECURITY;
CREATE TABLE public.balances (
    tenant_id uuid NOT NULL,
    account_id uuid NOT NULL,
    currency public.currency_code NOT NULL,
    debits public.total NOT NULL,
    credits public.total NOT NULL,
    pending_debits public.total NOT NULL,
    pending_credits public.total NOT NULL,
    version public.positive NOT NULL,
    updated_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY public.balances ALTER COLUMN tenant_id SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN account_id SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN currency SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN debits SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN credits SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN pending_debits SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN pending_credits SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN version SET STATISTICS 10;
ALTER TABLE ONLY public.balances ALTER COLUMN updated_at SET STATISTICS 10;
ALTER TABLE ONLY public.balances FORCE ROW LEVEL SECURITY;
CREATE TABLE public.entries (
    tenant_id uuid NOT NULL,
    account_id uuid NOT NULL,
    currency public.currency_code NOT NULL,
    sequence bigint NOT NULL,
    "position" public.place NOT NULL,
    side public.entry_side NOT NULL,
    amount public.positive NOT NULL,
    balance_after numeric(38,0) NOT NULL
);
ALTER TABLE ONLY public.entries ALTER COLUMN tenant_id SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN account_id SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN currency SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN sequence SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN "position" SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN side SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN amount SET STATISTICS 10;
ALTER TABLE ONLY public.entries ALTER COLUMN balance_after SET STATISTICS 10;
ALTER TABLE ONLY public.entries FORCE ROW LEVEL SECURITY;
CREATE TABLE public.heads (
    tenant_id uuid NOT NULL,
    sequence public.not_negative NOT NULL,
    hash public.event_hash NOT NULL,
    last_at timestamp with time zone NOT NULL,
    chart public.chart_name,
    rebuilt public.not_negative NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY public.heads FORCE ROW LEVEL SECURITY;
CREATE TABLE public.log (
    tenant_id uuid NOT NULL,
    sequence public.positive NOT NULL,
    event_id uuid NOT NULL,
    type public.event_type NOT NULL,
    created_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    request_id text NOT NULL,
    payload bytea NOT NULL,
    hash public.event_hash NOT NULL,
    traceparent public.trace_parent
);
ALTER TABLE ONLY public.log ALTER COLUMN tenant_id SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN sequence SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN event_id SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN type SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN created_at SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN actor SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN request_id SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN payload SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN hash SET STATISTICS 10;
ALTER TABLE ONLY public.log ALTER COLUMN traceparent SET STATISTICS 10;
ALTER TABLE ONLY public.log FORCE ROW LEVEL SECURITY;
CREATE TABLE public.mikro_orm_migrations (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    executed_at timestamp(6) with time zone DEFAULT CURRENT_TIMESTAMP(6) NOT NULL
);
CREATE SEQUENCE public.mikro_orm_migrations_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.mikro_orm_migrations_id_seq OWNED BY public.mikro_orm_migrations.id;
CREATE TABLE public.relay_dead_letters (
    tenant_id uuid NOT NULL,
    sequence bigint NOT NULL,
    part integer NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL,
    reason text NOT NULL,
    refused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    refusals integer DEFAULT 1 NOT NULL,
    due boolean DEFAULT false NOT NULL,
    claimed_until timestamp with time zone,
    published_at timestamp with time zone,
    CONSTRAINT relay_dead_letters_part_check CHECK ((part >= 0)),
    CONSTRAINT relay_dead_letters_sequence_check CHECK ((sequence > 0))
);
ALTER TABLE ONLY public.relay_dead_letters FORCE ROW LEVEL SECURITY;
CREATE TABLE public.relay_marks (
    tenant_id uuid NOT NULL,
    sequence bigint NOT NULL,
    claim_id uuid,
    claimed_until timestamp with time zone,
    open_until timestamp with time zone,
    CONSTRAINT relay_marks_check CHECK (((claim_id IS NULL) = (claimed_until IS NULL))),
    CONSTRAINT relay_marks_sequence_check CHECK ((sequence >= 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY public.relay_marks FORCE ROW LEVEL SECURITY;
CREATE TABLE public.transactions (
    tenant_id uuid NOT NULL,
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    idempotency_key text NOT NULL COLLATE pg_catalog."C",
    fingerprint public.request_fingerprint NOT NULL,
    reference text COLLATE pg_catalog."C",
    reverses uuid,
    created_at timestamp with time zone NOT NULL
);
ALTER TABLE ONLY public.transactions ALTER COLUMN tenant_id SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN tenant_id SET (n_distinct=-0.001);
ALTER TABLE ONLY public.transactions ALTER COLUMN sequence SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN id SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN idempotency_key SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN fingerprint SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN reference SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN reverses SET STATISTICS 10;
ALTER TABLE ONLY public.transactions ALTER COLUMN created_at SET STATISTICS 10;
ALTER TABLE ONLY public.transactions FORCE ROW LEVEL SECURITY;
ALTER TABLE ONLY public.mikro_orm_migrations ALTER COLUMN id SET DEFAULT nextval('public.mikro_orm_migrations_id_seq'::regclass);
INSERT INTO public.accounts VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-04274a2e8395', 'ASSETS', 'Assets', 'asset', 'debit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-0bd4275ad4fa', 'SETTLEMENT', 'Settlement accounts', 'asset', 'debit', NULL, 'ASSETS', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-0dbd60120c19', 'SETTLEMENT-NGN', 'Settlement bank account (NGN)', 'asset', 'debit', 'NGN', 'SETTLEMENT', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-1279c38a93eb', 'SETTLEMENT-USD', 'Settlement bank account (USD)', 'asset', 'debit', 'USD', 'SETTLEMENT', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-17b39484fe0b', 'SETTLEMENT-EUR', 'Settlement bank account (EUR)', 'asset', 'debit', 'EUR', 'SETTLEMENT', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-1b60af64cc1b', 'SETTLEMENT-GBP', 'Settlement bank account (GBP)', 'asset', 'debit', 'GBP', 'SETTLEMENT', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-1f2b763e8521', 'REGULATORY-RESERVES', 'Regulatory reserves', 'asset', 'debit', NULL, 'ASSETS', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-2261690f7d09', 'REGULATORY-RESERVE-NGN', 'Restricted regulatory reserve deposit (NGN)', 'asset', 'debit', 'NGN', 'REGULATORY-RESERVES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-276c09809794', 'REGULATORY-RESERVE-USD', 'Restricted regulatory reserve deposit (USD)', 'asset', 'debit', 'USD', 'REGULATORY-RESERVES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-29e9487e948b', 'REGULATORY-RESERVE-EUR', 'Restricted regulatory reserve deposit (EUR)', 'asset', 'debit', 'EUR', 'REGULATORY-RESERVES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-2c1c2e43f106', 'REGULATORY-RESERVE-GBP', 'Restricted regulatory reserve deposit (GBP)', 'asset', 'debit', 'GBP', 'REGULATORY-RESERVES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-3217013023c7', 'OPERATING-ASSETS', 'Operating assets', 'asset', 'debit', NULL, 'ASSETS', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-356f966926e6', 'PROVIDER-RECEIVABLE', 'Due from payment providers', 'asset', 'debit', NULL, 'OPERATING-ASSETS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-3a15797e9789', 'OPERATING-CASH', 'Operating bank accounts', 'asset', 'debit', NULL, 'OPERATING-ASSETS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-3e253d7ac0ce', 'PREPAID-EXPENSES', 'Prepaid expenses', 'asset', 'debit', NULL, 'OPERATING-ASSETS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-43295bfbe538', 'FIXED-ASSETS', 'Property and equipment at cost', 'asset', 'debit', NULL, 'OPERATING-ASSETS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-45c936c12937', 'ACCUMULATED-DEPRECIATION', 'Accumulated depreciation', 'asset', 'credit', NULL, 'OPERATING-ASSETS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-4bee7dfc501f', 'LIABILITIES', 'Liabilities', 'liability', 'credit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-4eba1d7c0785', 'CUSTOMER-WALLETS', 'Customer wallet pools', 'liability', 'credit', NULL, 'LIABILITIES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-524ae49380f1', 'CUSTOMER-WALLETS-NGN', 'Customer wallet pool (NGN)', 'liability', 'credit', 'NGN', 'CUSTOMER-WALLETS', false, NULL, false, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-56dea55aa1ff', 'CUSTOMER-WALLETS-USD', 'Customer wallet pool (USD)', 'liability', 'credit', 'USD', 'CUSTOMER-WALLETS', false, NULL, false, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-5b56998b8235', 'CUSTOMER-WALLETS-EUR', 'Customer wallet pool (EUR)', 'liability', 'credit', 'EUR', 'CUSTOMER-WALLETS', false, NULL, false, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-5f2a1a3abab3', 'CUSTOMER-WALLETS-GBP', 'Customer wallet pool (GBP)', 'liability', 'credit', 'GBP', 'CUSTOMER-WALLETS', false, NULL, false, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-622ba5357947', 'WITHDRAWALS-IN-TRANSIT', 'Customer withdrawals in transit', 'liability', 'credit', NULL, 'LIABILITIES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-6587395a8860', 'PAYABLES', 'Payables and accruals', 'liability', 'credit', NULL, 'LIABILITIES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-68680ddccb9c', 'ACCOUNTS-PAYABLE', 'Trade payables', 'liability', 'credit', NULL, 'PAYABLES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-6cacf91c719a', 'ACCRUED-EXPENSES', 'Accrued expenses', 'liability', 'credit', NULL, 'PAYABLES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-737e8e72677e', 'TAXES-PAYABLE', 'Value added tax and other taxes payable', 'liability', 'credit', NULL, 'PAYABLES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-76298e569740', 'FX-POSITIONS', 'Foreign exchange positions', 'liability', 'credit', NULL, 'LIABILITIES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-7897afa8527a', 'FX-POSITION-NGN', 'FX position (NGN)', 'liability', 'credit', 'NGN', 'FX-POSITIONS', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-7dac14c360d1', 'FX-POSITION-USD', 'FX position (USD)', 'liability', 'credit', 'USD', 'FX-POSITIONS', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-838035783b17', 'FX-POSITION-EUR', 'FX position (EUR)', 'liability', 'credit', 'EUR', 'FX-POSITIONS', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-86eefac317df', 'FX-POSITION-GBP', 'FX position (GBP)', 'liability', 'credit', 'GBP', 'FX-POSITIONS', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-88f631f9dc58', 'SUSPENSE', 'Suspense accounts', 'liability', 'credit', NULL, 'LIABILITIES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-8f6ae81cf6f3', 'SUSPENSE-NGN', 'Suspense (NGN)', 'liability', 'credit', 'NGN', 'SUSPENSE', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-9028d1495360', 'SUSPENSE-USD', 'Suspense (USD)', 'liability', 'credit', 'USD', 'SUSPENSE', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-9775b834424d', 'SUSPENSE-EUR', 'Suspense (EUR)', 'liability', 'credit', 'EUR', 'SUSPENSE', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-980445768d99', 'SUSPENSE-GBP', 'Suspense (GBP)', 'liability', 'credit', 'GBP', 'SUSPENSE', false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-9e97cc1aff61', 'EQUITY', 'Equity', 'equity', 'credit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-a0f9698b6c0b', 'SHARE-CAPITAL', 'Share capital', 'equity', 'credit', NULL, 'EQUITY', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-a6dc907f8039', 'RETAINED-EARNINGS', 'Retained earnings', 'equity', 'credit', NULL, 'EQUITY', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-aba2b65b4f76', 'DIVIDENDS', 'Dividends declared', 'equity', 'debit', NULL, 'EQUITY', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ac5f0b0c4a1c', 'OPENING-BALANCES', 'Opening balances', 'equity', 'credit', NULL, 'EQUITY', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-b2ae5f879cab', 'STATUTORY-RESERVE', 'Statutory and regulatory risk reserve', 'equity', 'credit', NULL, 'EQUITY', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-b5b43c88cae6', 'REVENUE', 'Revenue', 'revenue', 'credit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-b8069369f818', 'FEES', 'Fee collection', 'revenue', 'credit', NULL, 'REVENUE', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-bc58c31275cf', 'FEES-TRANSACTION', 'Transaction fees', 'revenue', 'credit', NULL, 'FEES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-c197672588b7', 'FEES-FX', 'Foreign exchange fees', 'revenue', 'credit', NULL, 'FEES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-c41676ee41e7', 'FEES-WITHDRAWAL', 'Withdrawal fees', 'revenue', 'credit', NULL, 'FEES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-cb6911a12d94', 'FEE-REFUNDS', 'Fee refunds and rebates', 'revenue', 'debit', NULL, 'FEES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ccdb412fda57', 'FX-GAINS', 'Foreign exchange gains', 'revenue', 'credit', NULL, 'REVENUE', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-d1b4ec601d0b', 'INTEREST-INCOME', 'Interest on settlement funds', 'revenue', 'credit', NULL, 'REVENUE', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-d7914cf26036', 'OTHER-REVENUE', 'Other operating revenue', 'revenue', 'credit', NULL, 'REVENUE', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-d91a9dce8849', 'EXPENSES', 'Expenses', 'expense', 'debit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-dfbd9f4835ee', 'DIRECT-COSTS', 'Cost of payments', 'expense', 'debit', NULL, 'EXPENSES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-e3085b1a7824', 'PROVIDER-FEES', 'Bank and payment provider charges', 'expense', 'debit', NULL, 'DIRECT-COSTS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-e7ccfe6fba64', 'FX-LOSSES', 'Foreign exchange losses', 'expense', 'debit', NULL, 'DIRECT-COSTS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-eb3154bfa80c', 'FRAUD-LOSSES', 'Fraud and chargeback losses', 'expense', 'debit', NULL, 'DIRECT-COSTS', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ec441cc3fe9d', 'OPERATING-EXPENSES', 'Operating expenses', 'expense', 'debit', NULL, 'EXPENSES', true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-f072f88593e6', 'SALARIES', 'Salaries and benefits', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-f53d792d9bd4', 'TECHNOLOGY', 'Technology and hosting', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-fa3f12aec299', 'MARKETING', 'Marketing', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ffbe7ded33a0', 'PROFESSIONAL-FEES', 'Legal, audit and compliance fees', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8001-01cc2fdef274', 'OFFICE-EXPENSES', 'Rent and office expenses', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8001-043eb047efc9', 'DEPRECIATION', 'Depreciation', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8001-09548fc4b051', 'INCOME-TAX', 'Income tax', 'expense', 'debit', NULL, 'OPERATING-EXPENSES', false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.352+00', '2026-11-29 19:06:34.352+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b00d-7000-8000-06c4040fd147', 'ASSETS', 'Assets', 'asset', 'debit', NULL, NULL, true, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.381+00', '2026-11-29 19:06:34.381+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'SALES', 'Verkäufe “✓”', 'revenue', 'credit', NULL, NULL, false, 'All of them', true, 'active', false, '{}', 1, '2026-11-29 19:06:34.394+00', '2026-11-29 19:06:34.394+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01f-7000-8000-1320e3aaaf0a', 'CARD', 'Card', 'liability', 'credit', 'NGN', NULL, false, NULL, false, 'active', false, '{}', 1, '2026-11-29 19:06:34.399+00', '2026-11-29 19:06:34.399+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b025-7000-8000-15a1a26a94d5', 'OLD', 'Old till', 'asset', 'debit', NULL, 'ASSETS', false, NULL, true, 'closed', false, '{}', 2, '2026-11-29 19:06:34.405+00', '2026-11-29 19:06:34.411+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'CASH', 'Cash box', 'asset', 'debit', NULL, 'ASSETS', false, NULL, true, 'active', false, '{"n":"12345678901234567890"}', 2, '2026-11-29 19:06:34.387+00', '2026-11-29 19:06:34.422+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b03d-7000-8000-058096ec3d1d', 'OPERATING-CASH', 'Bank', 'asset', 'debit', NULL, NULL, false, NULL, true, 'active', false, '{}', 1, '2026-11-29 19:06:34.429+00', '2026-11-29 19:06:34.429+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b045-7000-8000-23ba0abf05e7', 'SUSPENSE-NGN', 'Suspense (NGN)', 'liability', 'credit', 'NGN', NULL, false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.437+00', '2026-11-29 19:06:34.437+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b089-7000-8000-086d7f09c3f4', 'SUSPENSE-GBP', 'Suspense (GBP)', 'liability', 'credit', 'GBP', NULL, false, NULL, true, 'active', true, '{}', 1, '2026-11-29 19:06:34.505+00', '2026-11-29 19:06:34.505+00');
INSERT INTO public.balances VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b045-7000-8000-23ba0abf05e7', 'NGN', 0, 10000, 0, 0, 1, '2026-11-29 19:06:34.437+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'USD', 1000, 0, 0, 0, 1, '2026-11-29 19:06:34.474+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'USD', 0, 1000, 0, 0, 1, '2026-11-29 19:06:34.474+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'EUR', 550, 0, 0, 0, 1, '2026-11-29 19:06:34.474+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'EUR', 0, 550, 0, 0, 1, '2026-11-29 19:06:34.474+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01f-7000-8000-1320e3aaaf0a', 'NGN', 0, 6000, 0, 0, 1, '2026-11-29 19:06:34.481+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 19010, 3010, 0, 0, 4, '2026-11-29 19:06:34.488+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'NGN', 3010, 3010, 0, 0, 2, '2026-11-29 19:06:34.488+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-3a15797e9789', 'NGN', 100000000000000, 0, 0, 0, 1, '2026-11-29 19:06:34.496+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-524ae49380f1', 'NGN', 1, 100000000000000, 0, 0, 2, '2026-11-29 19:06:34.5+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ffbe7ded33a0', 'NGN', 0, 1, 0, 0, 1, '2026-11-29 19:06:34.5+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b03d-7000-8000-058096ec3d1d', 'GBP', 0, 777, 0, 0, 1, '2026-11-29 19:06:34.505+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b089-7000-8000-086d7f09c3f4', 'GBP', 777, 0, 0, 0, 1, '2026-11-29 19:06:34.505+00');
INSERT INTO public.entries VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 9, 0, 'debit', 10000, 10000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b045-7000-8000-23ba0abf05e7', 'NGN', 9, 1, 'credit', 10000, 10000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 10, 0, 'debit', 3010, 13010),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'NGN', 10, 1, 'credit', 3010, 3010),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'USD', 11, 0, 'debit', 1000, 1000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'USD', 11, 1, 'credit', 1000, 1000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'EUR', 11, 2, 'debit', 550, 550),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'EUR', 11, 3, 'credit', 550, 550),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01f-7000-8000-1320e3aaaf0a', 'NGN', 12, 0, 'credit', 6000, 6000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 12, 1, 'debit', 2000, 15010),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 12, 2, 'debit', 4000, 19010),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b013-7000-8000-092979214448', 'NGN', 13, 0, 'credit', 3010, 16000),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', '01a228b3-b01a-7000-8000-0c35bf3730ab', 'NGN', 13, 1, 'debit', 3010, 0),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-3a15797e9789', 'NGN', 67, 0, 'debit', 100000000000000, 100000000000000),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-524ae49380f1', 'NGN', 67, 1, 'credit', 100000000000000, 100000000000000),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-524ae49380f1', 'NGN', 68, 0, 'debit', 1, 99999999999999),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', '01a228b3-aff0-7000-8000-ffbe7ded33a0', 'NGN', 68, 1, 'credit', 1, -1),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b03d-7000-8000-058096ec3d1d', 'GBP', 3, 0, 'credit', 777, -777),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', '01a228b3-b089-7000-8000-086d7f09c3f4', 'GBP', 3, 1, 'debit', 777, -777);
INSERT INTO public.heads VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 13, '\x36c6204f839ad2942e782c2c9c5d6d82d9259f8deb093105161f94395e9ee757', '2026-11-29 19:06:34.488+00', NULL, 0),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 68, '\xecd698a28d4a2f1d1776e1186b33470b229a8dc52f1c4e77861bdecf73104158', '2026-11-29 19:06:34.5+00', 'wallet', 0),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 3, '\x0c8e284e6ba0b93129e1f67790dde59a3555ce5040276f6eb6f50ecaf4ddcf4a', '2026-11-29 19:06:34.505+00', NULL, 0);
INSERT INTO public.log VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 1, '01a228b3-aff4-7311-a48a-1d1953ec471e', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a5f0a1e6163635f30316d386d6237627a676530303830303034347835327830776e12064153534554531a06417373657473220561737365742a056465626974400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xeb7e242f5d72978f58a2ae046d18c95f582b7e0d7d3418ae00fafcfa0a5ff8b1', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 2, '01a228b3-aff4-70de-adfa-87af44abd6d3', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a780a1e6163635f30316d386d6237627a67653030383030306274676b6e6e6e3774120a534554544c454d454e541a13536574746c656d656e74206163636f756e7473220561737365742a0564656269743a06415353455453400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x2fc73bb10da96d200fe1d3f155a2367379368ee24b753a8ab3000c6013d482ed', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 3, '01a228b3-aff4-7283-a14d-e0dc5908a391', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8d010a1e6163635f30316d386d6237627a676530303830303064716e673134333073120e534554544c454d454e542d4e474e1a1d536574746c656d656e742062616e6b206163636f756e7420284e474e29220561737365742a05646562697432034e474e3a0a534554544c454d454e5450015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xfff6911192d223524146f562e4da4465c3903cada9357fa4d19e1e71f095affd', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 4, '01a228b3-aff4-7440-bd6f-cff4829437d0', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8d010a1e6163635f30316d386d6237627a67653030383030306a663731726e347a62120e534554544c454d454e542d5553441a1d536574746c656d656e742062616e6b206163636f756e74202855534429220561737365742a05646562697432035553443a0a534554544c454d454e5450015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x9ec9b9affb788d8afefe9f2681d0c711083286b50afc4f58c6333985d5d6ce5a', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 5, '01a228b3-aff5-74f1-aca0-44d539872722', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8d010a1e6163635f30316d386d6237627a67653030383030307170656138397a6762120e534554544c454d454e542d4555521a1d536574746c656d656e742062616e6b206163636f756e74202845555229220561737365742a05646562697432034555523a0a534554544c454d454e5450015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x6f6e589ff5a19404f5f282588fde46bab3a31ab5634e4551cb2d576493e1b15a', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 6, '01a228b3-aff5-72c9-ae19-70f2cd0d1ebf', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8d010a1e6163635f30316d386d6237627a67653030383030307663327170396b3076120e534554544c454d454e542d4742501a1d536574746c656d656e742062616e6b206163636f756e74202847425029220561737365742a05646562697432034742503a0a534554544c454d454e5450015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x45ceb3503b6a5578ff0f432e0c28647d6f38acfcf9fc1f017d23dde196f54244', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 7, '01a228b3-aff5-7086-a96d-32328ae94972', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a67653030383030307a35647633783139311213524547554c41544f52592d52455345525645531a13526567756c61746f7279207265736572766573220561737365742a0564656269743a06415353455453400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1641dc10412dd6845f1090ffd1d93bc5712cd7a77d0d31552651b06e5ff9b349', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 8, '01a228b3-aff5-7319-b1d8-1cfa6b9f53b0', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0aac010a1e6163635f30316d386d6237627a67653030383030313263356d67797a38391216524547554c41544f52592d524553455256452d4e474e1a2b5265737472696374656420726567756c61746f72792072657365727665206465706f73697420284e474e29220561737365742a05646562697432034e474e3a13524547554c41544f52592d524553455256455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1ddd19c663b20280b5de3c4d597c0a1a5233a865e682b94cafd6bd1bc5da70d2', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 9, '01a228b3-aff5-74a3-84fe-6be8b9d66b23', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0aac010a1e6163635f30316d386d6237627a676530303830303137646734723135776d1216524547554c41544f52592d524553455256452d5553441a2b5265737472696374656420726567756c61746f72792072657365727665206465706f736974202855534429220561737365742a05646562697432035553443a13524547554c41544f52592d524553455256455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x3aefd2f04a121f453cf9c1acae247e72f41123e2bc94480168d9f4c4b92bc2be', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 10, '01a228b3-aff5-7682-97a9-a0d73568ec98', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0aac010a1e6163635f30316d386d6237627a67653030383030313978353437783534621216524547554c41544f52592d524553455256452d4555521a2b5265737472696374656420726567756c61746f72792072657365727665206465706f736974202845555229220561737365742a05646562697432034555523a13524547554c41544f52592d524553455256455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x561217b0d411f1e7df62928621ab6bbfa70f1ef895485d7791ed1a9330cec86c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 11, '01a228b3-aff5-70ca-b7ff-9b8681052502', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0aac010a1e6163635f30316d386d6237627a67653030383030316333677134377738361216524547554c41544f52592d524553455256452d4742501a2b5265737472696374656420726567756c61746f72792072657365727665206465706f736974202847425029220561737365742a05646562697432034742503a13524547554c41544f52592d524553455256455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xb64107242b80eb38506d4fe66cbdadad3159a800f82f6ba6cf75d07c1d0eb7ab', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 12, '01a228b3-aff5-71b1-9c7e-e82f893adc5d', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a67653030383030316a3277306b3038793712104f5045524154494e472d4153534554531a104f7065726174696e6720617373657473220561737365742a0564656269743a06415353455453400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x6cc5393d5370c585d9368f1c8af6ecaefac8af79c88cf97aa7d6ac175cfe5c73', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 13, '01a228b3-aff5-76f5-a635-37e82c9d0dad', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a90010a1e6163635f30316d386d6237627a67653030383030316e647962366a397136121350524f56494445522d52454345495641424c451a1a4475652066726f6d207061796d656e742070726f766964657273220561737365742a0564656269743a104f5045524154494e472d41535345545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x842ed0f3d28bfd7eb2b7c1103063ba67c221a47310e94c4728fc5af0d689c604', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 14, '01a228b3-aff6-74b3-9151-127da5434d3c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a88010a1e6163635f30316d386d6237627a676530303830303174326e777178357739120e4f5045524154494e472d434153481a174f7065726174696e672062616e6b206163636f756e7473220561737365742a0564656269743a104f5045524154494e472d41535345545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x5a06f6bfd0cf98becdf20046bab29a5fc315d5d8db884c867591caa95c3897c9', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 15, '01a228b3-aff6-7653-8610-5891b921b293', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a83010a1e6163635f30316d386d6237627a676530303830303179346d79716e6736651210505245504149442d455850454e5345531a105072657061696420657870656e736573220561737365742a0564656269743a104f5045524154494e472d41535345545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x2a7d746cd8fade0e43067591ce123c722e81b0ea4ce261072fd2d94722544b07', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 16, '01a228b3-aff6-70ce-896e-0148e7378065', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8d010a1e6163635f30316d386d6237627a6765303038303032333535647a71733972120c46495845442d4153534554531a1e50726f706572747920616e642065717569706d656e7420617420636f7374220561737365742a0564656269743a104f5045524154494e472d41535345545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xe89d84dc3efc75dc72877c048d67c8865e576a3ad0a3f6a5737283df4c2fcc34', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 17, '01a228b3-aff6-77fb-8624-a4611e83ac83', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a94010a1e6163635f30316d386d6237627a67653030383030323573347663326139711218414343554d554c415445442d444550524543494154494f4e1a18416363756d756c6174656420646570726563696174696f6e220561737365742a066372656469743a104f5045524154494e472d41535345545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xad997ec142e428c7ea6b05522d855f7aff0d429140285d94ef37ba59a730dc1f', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 18, '01a228b3-aff6-7455-8acb-cffae7d777c0', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a6e0a1e6163635f30316d386d6237627a6765303038303032627873797a726d307a120b4c494142494c49544945531a0b4c696162696c697469657322096c696162696c6974792a06637265646974400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x206d278b5dbc024372300b8dafce4fb0c34fa2804877db248f1fbcd151dd3400', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 19, '01a228b3-aff6-7438-a594-a3c8c15ea97b', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8a010a1e6163635f30316d386d6237627a67653030383030326571386571723177351210435553544f4d45522d57414c4c4554531a15437573746f6d65722077616c6c657420706f6f6c7322096c696162696c6974792a066372656469743a0b4c494142494c4954494553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x6c4069d225b70ee6f301874dc5a6c897917649b459855acecfd5a265f4481f39', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 20, '01a228b3-aff6-7401-9e68-d1196d7dcf29', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a99010a1e6163635f30316d386d6237627a67653030383030326a39626a39373037681214435553544f4d45522d57414c4c4554532d4e474e1a1a437573746f6d65722077616c6c657420706f6f6c20284e474e2922096c696162696c6974792a0663726564697432034e474e3a10435553544f4d45522d57414c4c4554535a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x07cad7b4bbd96564bff66aa4813f335e064744b6ab512be606dc2e45b0415cbb', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 21, '01a228b3-aff6-7638-aec7-5bac5d2db2fb', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a99010a1e6163635f30316d386d6237627a67653030383030327076746a6e6e38667a1214435553544f4d45522d57414c4c4554532d5553441a1a437573746f6d65722077616c6c657420706f6f6c20285553442922096c696162696c6974792a0663726564697432035553443a10435553544f4d45522d57414c4c4554535a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x96949f0e891fccdcc6a3237c408943ec5d2b26c40d4b9002acbd5d5e2da69d09', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 22, '01a228b3-aff6-7012-8cd4-da9ee69c2696', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a99010a1e6163635f30316d386d6237627a676530303830303276617463727130686e1214435553544f4d45522d57414c4c4554532d4555521a1a437573746f6d65722077616c6c657420706f6f6c20284555522922096c696162696c6974792a0663726564697432034555523a10435553544f4d45522d57414c4c4554535a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x03e1b8e0b1b65145bd31eb17fbdaa469f0324b3d1ff2c52738292198f5872909', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 23, '01a228b3-aff6-7253-a459-1af9af5b358d', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a99010a1e6163635f30316d386d6237627a67653030383030327a353864336e656e6b1214435553544f4d45522d57414c4c4554532d4742501a1a437573746f6d65722077616c6c657420706f6f6c20284742502922096c696162696c6974792a0663726564697432034742503a10435553544f4d45522d57414c4c4554535a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x0b50a0548e64cf49eeacc308534a02e126f96bb65d56424a15dafcef22b8f5b8', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 24, '01a228b3-aff6-7447-b2da-426933e309e2', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a98010a1e6163635f30316d386d6237627a67653030383030333235656a6b6179613712165749544844524157414c532d494e2d5452414e5349541a1f437573746f6d6572207769746864726177616c7320696e207472616e73697422096c696162696c6974792a066372656469743a0b4c494142494c495449455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x9482a41b66dbc7bad8d827b7e04e90e7fb6c87cfc4530ed6573d866fb1254a1c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 25, '01a228b3-aff6-767b-8836-c9d36e42196a', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a82010a1e6163635f30316d386d6237627a6765303038303033356777776e6e323330120850415941424c45531a1550617961626c657320616e64206163637275616c7322096c696162696c6974792a066372656469743a0b4c494142494c4954494553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x232e8e7f538048a71e9e239759dc2a3b0b1c139e105857437018f6d8d02bb9da', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 26, '01a228b3-aff6-70c8-ab34-a189a19dc2b3', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7e0a1e6163635f30316d386d6237627a67653030383030333864303678736a777712104143434f554e54532d50415941424c451a0e54726164652070617961626c657322096c696162696c6974792a066372656469743a0850415941424c455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x108f1f20f0276ade286f85f0df815d8d81e59afc96e4288abf91bb95a536eaa5', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 27, '01a228b3-aff6-72be-8c61-51b830b85fb7', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a80010a1e6163635f30316d386d6237627a6765303038303033636e6b7768727763741210414343525545442d455850454e5345531a104163637275656420657870656e73657322096c696162696c6974792a066372656469743a0850415941424c455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x5afd60c5ed8f42964f60d832c5264dc2df1f774d049eba981bb003ab8563411d', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 28, '01a228b3-aff7-753c-805a-4291e7311935', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a94010a1e6163635f30316d386d6237627a67653030383030336b6674373734737679120d54415845532d50415941424c451a2756616c75652061646465642074617820616e64206f746865722074617865732070617961626c6522096c696162696c6974792a066372656469743a0850415941424c455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xf0382a6a78dd7617f1afc184c8fda16f70eba5885a2cf49401e4b90b0a0add95', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 29, '01a228b3-aff7-73f6-81e6-a0dcda296c63', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8b010a1e6163635f30316d386d6237627a6765303038303033703536373564357430120c46582d504f534954494f4e531a1a466f726569676e2065786368616e676520706f736974696f6e7322096c696162696c6974792a066372656469743a0b4c494142494c4954494553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x7d2d8fcd2bf336e2a306e56ee44d1e896059fab9faf96833caac9cb10061cd52', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 30, '01a228b3-aff7-73f1-850b-8c7188f67859', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8b010a1e6163635f30316d386d6237627a6765303038303033726a797174676d6b74120f46582d504f534954494f4e2d4e474e1a11465820706f736974696f6e20284e474e2922096c696162696c6974792a0663726564697432034e474e3a0c46582d504f534954494f4e5350015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xdb1a7b5d3baee23c1564ab03589feb89f2ae6fe62d87e9096d93e9163433644b', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 31, '01a228b3-aff7-75d5-85ab-84666f9e275d', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8b010a1e6163635f30316d386d6237627a6765303038303033786e67616336723668120f46582d504f534954494f4e2d5553441a11465820706f736974696f6e20285553442922096c696162696c6974792a0663726564697432035553443a0c46582d504f534954494f4e5350015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x57f6f5cf092060297b72fb5decab909c77c01ff44214b292441ea4cd5b27a821', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 32, '01a228b3-aff7-7368-88a3-f678b899686c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8b010a1e6163635f30316d386d6237627a6765303038303034336730747167657271120f46582d504f534954494f4e2d4555521a11465820706f736974696f6e20284555522922096c696162696c6974792a0663726564697432034555523a0c46582d504f534954494f4e5350015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x0e2132f2ad1cb97b907951366873051d438b2e04ec600f2f7bd72af29927ccac', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 33, '01a228b3-aff7-72d7-bcd6-bf1aa49461f9', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8b010a1e6163635f30316d386d6237627a676530303830303436787678633635797a120f46582d504f534954494f4e2d4742501a11465820706f736974696f6e20284742502922096c696162696c6974792a0663726564697432034742503a0c46582d504f534954494f4e5350015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1075ddc37ee8ef7ad8a9e8d2dca7a8766d28a9ee53a31ddff3df1e105699df9d', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 34, '01a228b3-aff7-71ff-92a0-0385d256e743', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7e0a1e6163635f30316d386d6237627a6765303038303034387972727a6b713272120853555350454e53451a1153757370656e7365206163636f756e747322096c696162696c6974792a066372656469743a0b4c494142494c4954494553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x12ff4559ea8da88ae63ca3c89117e74aeae4400f634db04f72bf9964486b0984', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 35, '01a228b3-aff7-75f1-89d0-0a0aeeae8f8c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a67653030383030346664626d317378716b120c53555350454e53452d4e474e1a0e53757370656e736520284e474e2922096c696162696c6974792a0663726564697432034e474e3a0853555350454e534550015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x9ebb65badfb18f5b3b470cb9e5675903a7dd744c59f8fa92950995c2bd0b245b', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 36, '01a228b3-aff8-70b3-b64b-445109ea217c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a6765303038303034673533386d6a6d7630120c53555350454e53452d5553441a0e53757370656e736520285553442922096c696162696c6974792a0663726564697432035553443a0853555350454e534550015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1ed0d58d02a8f3a861ee8e2a8ad167c986d97b2845af6286e4419c2df9977947', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 37, '01a228b3-aff8-74da-8987-da2eb50494be', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a6765303038303034716570773338676a64120c53555350454e53452d4555521a0e53757370656e736520284555522922096c696162696c6974792a0663726564697432034555523a0853555350454e534550015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xc4e759457fb270a822455fd678872a659c727895895e18f5601a2dfcdcda44a4', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 38, '01a228b3-aff8-72e5-afef-7209e912f58b', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a6765303038303034723068327164336373120c53555350454e53452d4742501a0e53757370656e736520284742502922096c696162696c6974792a0663726564697432034742503a0853555350454e534550015a0661637469766560016a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x3cc8e24d78c70b94db2dd8811a465e4b6b0f56981cb6ad0ce4d10cb933c923ff', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 39, '01a228b3-aff8-7785-9688-6303013b94ab', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a610a1e6163635f30316d386d6237627a6765303038303034796a7a36316e7a763112064551554954591a0645717569747922066571756974792a06637265646974400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x2180fe3d7dbf05037f5d7236d44d6882a66cb31e40fe51005fd4f002e0209731', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 40, '01a228b3-aff8-77a5-a63a-c2b235070c8b', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a750a1e6163635f30316d386d6237627a6765303038303035307a356d7270763062120d53484152452d4341504954414c1a0d5368617265206361706974616c22066571756974792a066372656469743a0645515549545950015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x358f9ad8861d0c3e8ca203d416b99123a24a570cbbe975142048fd8336cd8220', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 41, '01a228b3-aff8-7389-99c6-755ce2b80a0b', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7d0a1e6163635f30316d386d6237627a676530303830303536766a38377a303173121152455441494e45442d4541524e494e47531a1152657461696e6564206561726e696e677322066571756974792a066372656469743a0645515549545950015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x40f32e6e474f6ea96045eeb774b30e978087782a01f5cd46a73fe031dd85feec', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 42, '01a228b3-aff8-77c9-8ee6-c3709a68c2d9', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a750a1e6163635f30316d386d6237627a6765303038303035626d617635706b767012094449564944454e44531a124469766964656e6473206465636c6172656422066571756974792a0564656269743a0645515549545950015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1d06dd3d2d1512c47c9df75a3aaa9cea39e47a578b561f80cd39e366f178caa0', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 43, '01a228b3-aff8-70e1-887b-3033d4add262', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a67653030383030356362773567726a677712104f50454e494e472d42414c414e4345531a104f70656e696e672062616c616e63657322066571756974792a066372656469743a0645515549545950015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1bc123b444de96953aabc8e6579a471e95a22cc26fd71f7886e1dd4c07eba521', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 44, '01a228b3-aff8-735a-b72b-70fdb7a914b7', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a91010a1e6163635f30316d386d6237627a67653030383030356a6e7366726637356212115354415455544f52592d524553455256451a255374617475746f727920616e6420726567756c61746f7279207269736b207265736572766522066571756974792a066372656469743a0645515549545950015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xf414af981e52f39e78b8cd605dbe6c71a7fc59e0ff81e75f2f38bc353195ec61', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 45, '01a228b3-aff8-722d-88be-76e16b091907', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a640a1e6163635f30316d386d6237627a67653030383030356e70677938686a71361207524556454e55451a07526576656e75652207726576656e75652a06637265646974400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x08f72d32f3e43d9f969ce4ca5ba806109316f9bd8864783454ba3dad85f9b88a', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 46, '01a228b3-aff8-70f2-8ac4-562566d3e6f9', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a710a1e6163635f30316d386d6237627a676530303830303572307439706b7930721204464545531a0e46656520636f6c6c656374696f6e2207726576656e75652a066372656469743a07524556454e5545400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x5f929b57b4b64cf7aa730ed9d6cfbceb6e721656008bb29f37378c6c97e77c88', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 47, '01a228b3-aff8-73c0-9a88-9066ce3b6c5f', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7a0a1e6163635f30316d386d6237627a67653030383030357762333168347865661210464545532d5452414e53414354494f4e1a105472616e73616374696f6e20666565732207726576656e75652a066372656469743a044645455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x53c401d53be44fb9de0ff7ec1d702c21d4bbef4b4f35f4e07416ff951910bb6f', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 48, '01a228b3-aff8-71df-8d02-e9b103f548a3', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a760a1e6163635f30316d386d6237627a6765303038303036316a786b6a623235711207464545532d46581a15466f726569676e2065786368616e676520666565732207726576656e75652a066372656469743a044645455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x51066129f646ab18eda3b3ff98200a62a3b693caa0a23c51da6f9db53058f27c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 49, '01a228b3-aff8-7340-a500-e72970901bf9', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a780a1e6163635f30316d386d6237627a6765303038303036343273766577676637120f464545532d5749544844524157414c1a0f5769746864726177616c20666565732207726576656e75652a066372656469743a044645455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xa8c54660950f6e55dda5d5fd017b8cbf8d16ea3a45b7eff60c932f4f2cf77992', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 50, '01a228b3-aff8-71da-b407-43821ae2323b', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a676530303830303662643438743262636d120b4645452d524546554e44531a1746656520726566756e647320616e6420726562617465732207726576656e75652a0564656269743a044645455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x05e5fcecc85bfdb69a311ce8f035ba78584b28d89c70c63c6395169c790426e9', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 51, '01a228b3-aff8-72d8-8fad-d245e450f106', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a6765303038303036637664306a7a706a71120846582d4741494e531a16466f726569676e2065786368616e6765206761696e732207726576656e75652a066372656469743a07524556454e554550015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x9d6d96890ea9280d19aa1f2ec091407deb9ce25d33ba152af529fdd9de74ad99', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 52, '01a228b3-aff8-738f-b522-75206733e2ea', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a88010a1e6163635f30316d386d6237627a676530303830303668706b703630373862120f494e5445524553542d494e434f4d451a1c496e746572657374206f6e20736574746c656d656e742066756e64732207726576656e75652a066372656469743a07524556454e554550015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xc88b97a006a60ab583e2586368cf74cfeddecaf0fe7b57f6c07081ab8b1ed249', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 53, '01a228b3-aff8-7244-9f6e-4d78537cfe1c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a6765303038303036716a35366634723170120d4f544845522d524556454e55451a174f74686572206f7065726174696e6720726576656e75652207726576656e75652a066372656469743a07524556454e554550015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xfe86658422547bd43122aa1f02d2e1ef501b968a6275e0c90d168980a9343c05', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 54, '01a228b3-aff8-7060-b76e-ad1a11192b43', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a650a1e6163635f30316d386d6237627a67653030383030367333616577783232391208455850454e5345531a08457870656e7365732207657870656e73652a056465626974400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x2d4ef42f18aab3c83b225c7d2a618f555b6e7733e46bf5ffe8e80ecd258b9910', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 55, '01a228b3-aff8-7092-8b97-9e70fe5a9a10', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a67653030383030367a7170666d67646665120c4449524543542d434f5354531a10436f7374206f66207061796d656e74732207657870656e73652a0564656269743a08455850454e534553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x95597b0a51323b489591e285d31d38db66411bd768629aaa0814fc29f952b49e', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 56, '01a228b3-aff8-72be-9212-c22142639d1f', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8f010a1e6163635f30316d386d6237627a676530303830303733313164686d793134120d50524f56494445522d464545531a2142616e6b20616e64207061796d656e742070726f766964657220636861726765732207657870656e73652a0564656269743a0c4449524543542d434f53545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x0e28ccf1823d774a387b8265e6170875dc27289303bfe62f87d29f9430162902', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 57, '01a228b3-aff8-774d-90fa-01d9caaa4a7c', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a81010a1e6163635f30316d386d6237627a676530303830303737736b7a367a656b34120946582d4c4f535345531a17466f726569676e2065786368616e6765206c6f737365732207657870656e73652a0564656269743a0c4449524543542d434f53545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x57c4e1cfca508b6110ae37d69d9da842d1c0b9799868ee0afec1fbdee428485b', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 58, '01a228b3-aff8-75a2-b75e-a8769404f862', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a88010a1e6163635f30316d386d6237627a676530303830303762363561627a613063120c46524155442d4c4f535345531a1b467261756420616e64206368617267656261636b206c6f737365732207657870656e73652a0564656269743a0c4449524543542d434f53545350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xf930b66f1f64f4f626468268139973da8e6984dd457b8836ccc5b50ce6535476', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 59, '01a228b3-aff8-7719-9bc0-2a157d638beb', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a83010a1e6163635f30316d386d6237627a67653030383030376338676563377a6d7812124f5045524154494e472d455850454e5345531a124f7065726174696e6720657870656e7365732207657870656e73652a0564656269743a08455850454e534553400150015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x1d1574476b89876ac0df5ed541ffaa3706e42aaa4acbbe3e89aab59fd07d625a', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 60, '01a228b3-aff8-7387-9bd0-53dcdfae2dc7', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a84010a1e6163635f30316d386d6237627a6765303038303037676562773862347a36120853414c41524945531a1553616c617269657320616e642062656e65666974732207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x693034214bf505127333f3fa651b58e8ca6132efc37b2ebc6b87cf1123899a92', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 61, '01a228b3-aff9-70b0-922c-eb2a7b5dfa0d', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a87010a1e6163635f30316d386d6237627a67653030383030376e376e776a7636796d120a544543484e4f4c4f47591a16546563686e6f6c6f677920616e6420686f7374696e672207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xd68e0970e8eb55cd2477246ed58c33b8e272b7bcdaac535e5ebe0f5da60d50a8', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 62, '01a228b3-aff9-7012-bbf5-e490ca6b32e3', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a790a1e6163635f30316d386d6237627a6765303038303037743777396178676d7312094d41524b4554494e471a094d61726b6574696e672207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x025e606480e976a4c6597fb03b2c6e433dd776014fd61980c3ca46cbef4636a2', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 63, '01a228b3-aff9-74d9-84e3-443980a40bdb', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a98010a1e6163635f30316d386d6237627a67653030383030377a7173797974637830121150524f46455353494f4e414c2d464545531a204c6567616c2c20617564697420616e6420636f6d706c69616e636520666565732207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\xe861d8c457919c3af1f3e859a372888bbea77bdfa86cd08bd37f02a3790d726c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 64, '01a228b3-aff9-7537-b706-7b052d2658fe', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a8e010a1e6163635f30316d386d6237627a6765303038303038317367717878776b6d120f4f46464943452d455850454e5345531a1852656e7420616e64206f666669636520657870656e7365732207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x0bc00a1055812805df10fbc57549c4f9e1ce3334ee178458737f3e5fa64b2175', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 65, '01a228b3-aff9-7434-ad25-47e1a6e5c6cf', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7f0a1e6163635f30316d386d6237627a6765303038303038343774723466767939120c444550524543494154494f4e1a0c446570726563696174696f6e2207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x23ca76394452095c71f56edbfb8c6bb440a0c9c303931c7c94a93e3be0724d52', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 66, '01a228b3-aff9-7794-b572-bffeafb9986d', 'account.created', '2026-11-29 19:06:34.352+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d6237627a676530303830303839616a377739633268120a494e434f4d452d5441581a0a496e636f6d65207461782207657870656e73652a0564656269743a124f5045524154494e472d455850454e53455350015a066163746976656a027b7d700178f0dfcec5a2348001f0dfcec5a234120677616c6c6574', '\x95e1fb968339bf13877725ae5d725074c3e9785fc1ea2e08287b60ec72ee28ca', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 1, '01a228b3-b00e-7359-be0b-1e135d775674', 'account.created', '2026-11-29 19:06:34.381+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a5f0a1e6163635f30316d386d62376330646530303830303036726732307a6d613712064153534554531a06417373657473220561737365742a056465626974400150015a066163746976656a027b7d7001788de0cec5a23480018de0cec5a234', '\x28bc4f43d91cc434d66527645c7220bbff921d79dfa94137fdd1279021bf21d7', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 2, '01a228b3-b015-7616-85ad-1afb968bc36d', 'account.created', '2026-11-29 19:06:34.387+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7b0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0443617368220561737365742a0564656269743a0641535345545350015a066163746976656a1c7b226e223a223132333435363738393031323334353637383930227d70017893e0cec5a234800193e0cec5a234', '\x5abd71b39e19d8044cf7902292856ebff602053d11420a2968b2280be054960c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 3, '01a228b3-b01a-71ee-b2b4-231ac3d85098', 'account.created', '2026-11-29 19:06:34.394+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a790a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a135665726bc3a475666520e2809ce29c93e2809d2207726576656e75652a066372656469744a0b416c6c206f66207468656d50015a066163746976656a027b7d7001789ae0cec5a23480019ae0cec5a234', '\x7398e0387562233387229c3d106efe5ac2c980b2942e5df52536701480419d3b', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 4, '01a228b3-b020-750f-8a2f-e6e253da99b4', 'account.created', '2026-11-29 19:06:34.399+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a610a1e6163635f30316d386d623763307a653030383030306b343368746e6272611204434152441a044361726422096c696162696c6974792a0663726564697432034e474e5a066163746976656a027b7d7001789fe0cec5a23480019fe0cec5a234', '\x03fa9e10b45ea0336722d8226fcf7bd3555cdbed5409f24aed1a5d14e1cb42a9', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 5, '01a228b3-b026-7602-9c0c-c539859a2328', 'account.created', '2026-11-29 19:06:34.405+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a640a1e6163635f30316d386d6237633135653030383030306e6d3668366e35366e12034f4c441a084f6c642074696c6c220561737365742a0564656269743a0641535345545350015a066163746976656a027b7d700178a5e0cec5a2348001a5e0cec5a234', '\x4b60051bf970ca3bfd84355027f517c2669996d5074d64c2bb2cd5b1ad0a107d', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 6, '01a228b3-b030-71b0-95aa-23291a81fdfb', 'account.updated', '2026-11-29 19:06:34.411+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a640a1e6163635f30316d386d6237633135653030383030306e6d3668366e35366e12034f4c441a084f6c642074696c6c220561737365742a0564656269743a0641535345545350015a06636c6f7365646a027b7d700278a5e0cec5a2348001abe0cec5a2341206737461747573', '\x98cf2a7c16c3a4de4d8ecb671361d3b832de4117eb5621728a1d0007e3b819f6', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 7, '01a228b3-b037-70a8-a3e6-8136eeecb77f', 'account.updated', '2026-11-29 19:06:34.422+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a7f0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a084361736820626f78220561737365742a0564656269743a0641535345545350015a066163746976656a1c7b226e223a223132333435363738393031323334353637383930227d70027893e0cec5a2348001b6e0cec5a23412046e616d65', '\x22c40b486070e543b39d8346ba2d3f023553c4914e8d9471b9e30f8992923b77', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 1, '01a228b3-b03e-7734-bd85-79a83ab54259', 'account.created', '2026-11-29 19:06:34.429+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a630a1e6163635f30316d386d623763317865303038303030356732626572663878120e4f5045524154494e472d434153481a0442616e6b220561737365742a05646562697450015a066163746976656a027b7d700178bde0cec5a2348001bde0cec5a234', '\xd5c29a2f7d7b9d258eea5d4953bcb3e6c67c805de467dd8d88e3a76c5a1b901c', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 8, '01a228b3-b047-7241-80b3-ff62135d89e7', 'account.created', '2026-11-29 19:06:34.437+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a770a1e6163635f30316d386d623763323565303038303031337138356279316637120c53555350454e53452d4e474e1a0e53757370656e736520284e474e2922096c696162696c6974792a0663726564697432034e474e50015a0661637469766560016a027b7d700178c5e0cec5a2348001c5e0cec5a234', '\xa130fe921628a28ee775adea510f29d3e053c972b9add7712bfb5b76fafd3d07', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 9, '01a228b3-b048-756d-adac-7a3b849d3e18', 'transaction.posted', '2026-11-29 19:06:34.437+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d623763323265386738726d79366b7a6e3663683537120673696e676c651a0674696c6c2d3122210187d8427c25121f9961ab999278cf9901a6f4cdc6a663755a70180ed6a73c9eff2a074f70656e696e673a420a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a063130302e3030220564656269742a034e474e3a063130302e30303a4d0a1e6163635f30316d386d623763323565303038303031337138356279316637120c53555350454e53452d4e474e1a063130302e303022066372656469742a034e474e30013a063130302e303042027b7d525d0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a034e474e2204302e30302a063130302e303032063130302e30303a04302e30304204302e30304a04302e303052063130302e3030580152650a1e6163635f30316d386d623763323565303038303031337138356279316637120c53555350454e53452d4e474e1a034e474e2204302e30302a063130302e30303204302e30303a063130302e30304204302e30304a04302e303052063130302e30305801', '\x448eb3ee921ebd4cbcdba29e96157b31e143afa5abce7da42d911f12821811d9', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 10, '01a228b3-b05e-7456-ac25-fa360eabd8b1', 'transaction.posted', '2026-11-29 19:06:34.449+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d623763326765776362667a78303761317668317a741206646f75626c651a076f726465722d31222101d0f731684c2ed24f689cc6036c046f47780fc754bd7e44e475967dc2d86c34d32a10c3847066656c20e2809ce29c93e2809d3205494e562d313a410a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0533302e3130220564656269742a034e474e3a063133302e31303a420a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a0533302e313022066372656469742a034e474e3a0533302e313042347b226e223a223132333435363738393031323334353637383930222c2262223a312e352c2261223a5b747275652c6e756c6c5d7d525f0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a034e474e22063130302e30302a063133302e313032063133302e31303a04302e30304204302e30304a04302e303052063133302e31305802525b0a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a034e474e2204302e30302a0533302e31303204302e30303a0533302e31304204302e30304a04302e3030520533302e31305801', '\x55c884ae86e48acc699f43fe522a91c4b64f71f9c16c52dac797b7780dbf9f4e', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 11, '01a228b3-b06b-7319-a471-ad72d76a5ee6', 'transaction.posted', '2026-11-29 19:06:34.474+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d6237633362657132396b32377179657276336476301206646f75626c651a076f726465722d32222101397981e8ab0ab8e28a4d9e67727f9ec6e8dc650b84433c7b05d2e2c6e3667b113205494e562d313a400a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0531302e3030220564656269742a035553443a0531302e30303a420a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a0531302e303022066372656469742a035553443a0531302e30303a3e0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a04352e3530220564656269742a034555523a04352e35303a400a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a04352e353022066372656469742a034555523a04352e353042027b7d525a0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a035553442204302e30302a0531302e3030320531302e30303a04302e30304204302e30304a04302e3030520531302e30305801525b0a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a035553442204302e30302a0531302e30303204302e30303a0531302e30304204302e30304a04302e3030520531302e3030580152570a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a034555522204302e30302a04352e35303204352e35303a04302e30304204302e30304a04302e30305204352e3530580152580a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a034555522204302e30302a04352e35303204302e30303a04352e35304204302e30304a04302e30305204352e35305801', '\x115c31d6e2945a76cfe2041878414fc112154b02ad9efc29c116f726ef748192', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 12, '01a228b3-b073-742a-8516-0f7b2ee88135', 'transaction.posted', '2026-11-29 19:06:34.481+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d6237633367656339736e6162303677336b613239631206646f75626c651a0573706c69742221017269bcf8f3ca1ea24c4a56c2615310736f5992df061fbca6a46f422642a8cb3e3a410a1e6163635f30316d386d623763307a653030383030306b343368746e6272611204434152441a0536302e303022066372656469742a034e474e3a0536302e30303a410a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0532302e3030220564656269742a034e474e3a063135302e31303a410a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0534302e3030220564656269742a034e474e3a063139302e313042027b7d525a0a1e6163635f30316d386d623763307a653030383030306b343368746e6272611204434152441a034e474e2204302e30302a0536302e30303204302e30303a0536302e30304204302e30304a04302e3030520536302e30305801525f0a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a034e474e22063133302e31302a063139302e313032063139302e31303a04302e30304204302e30304a04302e303052063139302e31305803', '\x2789828828fc529e79cf545a117ac79f8f29d5d6c2713b572b49857233d3c371', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 13, '01a228b3-b07a-71f6-9143-1ca40ce2b11c', 'transaction.posted', '2026-11-29 19:06:34.488+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d6237633371656a78733531767733773438656d64611208726576657273616c1a08726566756e642d312221013a1e44d06b8be634e86551fe18118e6e0e14d0bfb94c24144d8e9a679a2c32a82a0852657475726e65643a420a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a0533302e313022066372656469742a034e474e3a063136302e30303a400a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a0533302e3130220564656269742a034e474e3a04302e303042027b7d4a1e74786e5f30316d386d623763326765776362667a78303761317668317a7452600a1e6163635f30316d386d623763306b65303038303030393535776a326832381204434153481a034e474e22063139302e31302a063136302e303032063139302e31303a0533302e31304204302e30304a04302e303052063136302e30305804525b0a1e6163635f30316d386d6237633074653030383030306336707a6b65633562120553414c45531a034e474e220533302e31302a04302e3030320533302e31303a0533302e31304204302e30304a04302e30305204302e30305802', '\x36c6204f839ad2942e782c2c9c5d6d82d9259f8deb093105161f94395e9ee757', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 67, '01a228b3-b081-72f5-a294-0805f7773943', 'transaction.posted', '2026-11-29 19:06:34.496+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d623763337a65657876363561366362387671347a611206646f75626c651a076465706f7369742221014b5c9503371b8fa2bf5a071e18e4d5d0cb58b94ee34df0e99ccacd41e697a4f83a600a1e6163635f30316d386d6237627a676530303830303174326e777178357739120e4f5045524154494e472d434153481a10313030303030303030303030302e3030220564656269742a034e474e3a10313030303030303030303030302e30303a670a1e6163635f30316d386d6237627a67653030383030326a39626a39373037681214435553544f4d45522d57414c4c4554532d4e474e1a10313030303030303030303030302e303022066372656469742a034e474e3a10313030303030303030303030302e303042027b7d5285010a1e6163635f30316d386d6237627a676530303830303174326e777178357739120e4f5045524154494e472d434153481a034e474e2204302e30302a10313030303030303030303030302e30303210313030303030303030303030302e30303a04302e30304204302e30304a04302e30305210313030303030303030303030302e30305801528b010a1e6163635f30316d386d6237627a67653030383030326a39626a39373037681214435553544f4d45522d57414c4c4554532d4e474e1a034e474e2204302e30302a10313030303030303030303030302e30303204302e30303a10313030303030303030303030302e30304204302e30304a04302e30305210313030303030303030303030302e30305801', '\x383392ad883c0a4d3a88caf0cb26fb0fdf5f609190e4ad7bb61ed38fb618f457', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 68, '01a228b3-b085-74e1-b5f6-082d36a1f3bc', 'transaction.posted', '2026-11-29 19:06:34.5+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d6237633434657031616d6e636e31357963323678611206646f75626c651a036665652221011369c706f04cef6f5edfc5de6889763af47d3f9ad23c2ccd3b3b6a00a0a000823a590a1e6163635f30316d386d6237627a67653030383030326a39626a39373037681214435553544f4d45522d57414c4c4554532d4e474e1a04302e3031220564656269742a034e474e3a0f3939393939393939393939392e39393a4d0a1e6163635f30316d386d6237627a67653030383030377a7173797974637830121150524f46455353494f4e414c2d464545531a04302e303122066372656469742a034e474e3a052d302e3031420e7b226f72646572223a223432227d5295010a1e6163635f30316d386d6237627a67653030383030326a39626a39373037681214435553544f4d45522d57414c4c4554532d4e474e1a034e474e2210313030303030303030303030302e30302a0f3939393939393939393939392e39393204302e30313a10313030303030303030303030302e30304204302e30304a04302e3030520f3939393939393939393939392e3939580252660a1e6163635f30316d386d6237627a67653030383030377a7173797974637830121150524f46455353494f4e414c2d464545531a034e474e2204302e30302a052d302e30313204302e30303a04302e30314204302e30304a04302e303052052d302e30315801', '\xecd698a28d4a2f1d1776e1186b33470b229a8dc52f1c4e77861bdecf73104158', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 2, '01a228b3-b08a-739d-bbc8-7cbfe10824b0', 'account.created', '2026-11-29 19:06:34.505+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a770a1e6163635f30316d386d62376334396530303830303038646e7a676b677a6d120c53555350454e53452d4742501a0e53757370656e736520284742502922096c696162696c6974792a06637265646974320347425050015a0661637469766560016a027b7d70017889e1cec5a234800189e1cec5a234', '\x0a6a7e7cb0a8d4c17a722071cb9ff2c06847a9dc1531e59b703567ccc30823a5', NULL),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 3, '01a228b3-b08a-7432-90b5-68b6f2917395', 'transaction.posted', '2026-11-29 19:06:34.505+00', 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', 'req-old', '\x0a1e74786e5f30316d386d623763343965776476356272746d73706873377672120673696e676c651a05666c6f617422210179062530f6163ec81c8349bcc4139d83dae2dad60ee6663228af839143acbc613a4a0a1e6163635f30316d386d623763317865303038303030356732626572663878120e4f5045524154494e472d434153481a04372e373722066372656469742a034742503a052d372e37373a490a1e6163635f30316d386d62376334396530303830303038646e7a676b677a6d120c53555350454e53452d4742501a04372e3737220564656269742a0347425030013a052d372e373742027b7d52630a1e6163635f30316d386d623763317865303038303030356732626572663878120e4f5045524154494e472d434153481a034742502204302e30302a052d372e37373204302e30303a04372e37374204302e30304a04302e303052052d372e3737580152610a1e6163635f30316d386d62376334396530303830303038646e7a676b677a6d120c53555350454e53452d4742501a034742502204302e30302a052d372e37373204372e37373a04302e30304204302e30304a04302e303052052d372e37375801', '\x0c8e284e6ba0b93129e1f67790dde59a3555ce5040276f6eb6f50ecaf4ddcf4a', NULL);
INSERT INTO public.mikro_orm_migrations VALUES
	(1, '0001-ledger', '2026-11-29 19:06:13.877959+00');
INSERT INTO public.relay_marks VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 0, NULL, NULL, '2026-11-29 19:16:34.449+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 0, NULL, NULL, '2026-11-29 19:16:34.496+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 0, NULL, NULL, '2026-11-29 19:16:34.505+00');
INSERT INTO public.transactions VALUES
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 9, '01a228b3-b042-7220-8c53-c69fea6644a7', 'till-1', '\x0187d8427c25121f9961ab999278cf9901a6f4cdc6a663755a70180ed6a73c9eff', NULL, NULL, '2026-11-29 19:06:34.437+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 10, '01a228b3-b050-7718-b7ff-a03a83b887fa', 'order-1', '\x01d0f731684c2ed24f689cc6036c046f47780fc754bd7e44e475967dc2d86c34d3', 'INV-1', NULL, '2026-11-29 19:06:34.449+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 11, '01a228b3-b06b-75c4-9988-f7f3b1b1b760', 'order-2', '\x01397981e8ab0ab8e28a4d9e67727f9ec6e8dc650b84433c7b05d2e2c6e3667b11', 'INV-1', NULL, '2026-11-29 19:06:34.474+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 12, '01a228b3-b070-7313-9aa9-60370735092c', 'split', '\x017269bcf8f3ca1ea24c4a56c2615310736f5992df061fbca6a46f422642a8cb3e', NULL, NULL, '2026-11-29 19:06:34.481+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c174a', 13, '01a228b3-b077-74bb-9287-7c1f088751aa', 'refund-1', '\x013a1e44d06b8be634e86551fe18118e6e0e14d0bfb94c24144d8e9a679a2c32a8', NULL, '01a228b3-b050-7718-b7ff-a03a83b887fa', '2026-11-29 19:06:34.488+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 67, '01a228b3-b07f-73bb-b315-4662d1bb93ea', 'deposit', '\x014b5c9503371b8fa2bf5a071e18e4d5d0cb58b94ee34df0e99ccacd41e697a4f8', NULL, NULL, '2026-11-29 19:06:34.496+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1748', 68, '01a228b3-b084-7582-aa55-95097cc11baa', 'fee', '\x011369c706f04cef6f5edfc5de6889763af47d3f9ad23c2ccd3b3b6a00a0a00082', NULL, NULL, '2026-11-29 19:06:34.5+00'),
	('019343fb-9768-71aa-9e0a-64a1ec3c1749', 3, '01a228b3-b089-771b-b2af-1aa66d1c9f78', 'float', '\x0179062530f6163ec81c8349bcc4139d83dae2dad60ee6663228af839143acbc61', NULL, NULL, '2026-11-29 19:06:34.505+00');
SELECT pg_catalog.setval('public.mikro_orm_migrations_id_seq', 1, true);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_tenant_id_code_key UNIQUE (tenant_id, code);
ALTER TABLE ONLY public.balances
    ADD CONSTRAINT balances_pkey PRIMARY KEY (tenant_id, account_id, currency);
ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (tenant_id, account_id, currency, sequence, "position");
ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (tenant_id, sequence);
ALTER TABLE ONLY public.mikro_orm_migrations
    ADD CONSTRAINT mikro_orm_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.relay_dead_letters
    ADD CONSTRAINT relay_dead_letters_pkey PRIMARY KEY (tenant_id, sequence, part);
ALTER TABLE ONLY public.relay_marks
    ADD CONSTRAINT relay_marks_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_pkey PRIMARY KEY (tenant_id, sequence);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_tenant_id_id_key UNIQUE (tenant_id, id);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_tenant_id_idempotency_key_key UNIQUE (tenant_id, idempotency_key);
CREATE INDEX accounts_parent ON public.accounts USING btree (tenant_id, parent_code, id) WHERE (parent_code IS NOT NULL);
CREATE INDEX relay_dead_letters_left ON public.relay_dead_letters USING btree (tenant_id, sequence, part) WHERE (published_at IS NULL);
CREATE INDEX relay_marks_open ON public.relay_marks USING btree (tenant_id) WHERE (open_until IS NOT NULL);
CREATE INDEX transactions_reference ON public.transactions USING btree (tenant_id, reference, sequence) WHERE (reference IS NOT NULL);
CREATE UNIQUE INDEX transactions_reverses ON public.transactions USING btree (tenant_id, reverses) WHERE (reverses IS NOT NULL);
CREATE TRIGGER entries_must_balance AFTER INSERT ON public.entries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.entries_must_balance();
CREATE TRIGGER relay_marks_must_rise BEFORE UPDATE ON public.relay_marks FOR EACH ROW WHEN ((new.sequence < old.sequence)) EXECUTE FUNCTION public.relay_marks_must_rise();
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.heads(tenant_id);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_tenant_id_parent_code_fkey FOREIGN KEY (tenant_id, parent_code) REFERENCES public.accounts(tenant_id, code);
ALTER TABLE ONLY public.balances
    ADD CONSTRAINT balances_tenant_id_account_id_fkey FOREIGN KEY (tenant_id, account_id) REFERENCES public.accounts(tenant_id, id);
ALTER TABLE public.accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.balances ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.heads ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.log ENABLE ROW LEVEL SECURITY;
CREATE POLICY operator ON public.accounts FOR SELECT TO ledger_owner USING (true);
CREATE POLICY operator ON public.balances FOR SELECT TO ledger_owner USING (true);
CREATE POLICY operator ON public.entries FOR SELECT TO ledger_owner USING (true);
CREATE POLICY operator ON public.heads FOR SELECT TO ledger_owner USING (true);
CREATE POLICY operator ON public.log FOR SELECT TO ledger_owner USING (true);
CREATE POLICY operator ON public.relay_dead_letters TO ledger_owner USING (true) WITH CHECK (true);
CREATE POLICY operator ON public.relay_marks TO ledger_owner USING (true) WITH CHECK (true);
CREATE POLICY operator ON public.transactions FOR SELECT TO ledger_owner USING (true);
CREATE POLICY relay ON public.relay_dead_letters USING ((( SELECT current_setting('app.relay'::text, true) AS current_setting) = 'on'::text)) WITH CHECK ((( SELECT current_setting('app.relay'::text, true) AS current_setting) = 'on'::text));
CREATE POLICY relay ON public.relay_marks USING ((( SELECT current_setting('app.relay'::text, true) AS current_setting) = 'on'::text)) WITH CHECK ((( SELECT current_setting('app.relay'::text, true) AS current_setting) = 'on'::text));
ALTER TABLE public.relay_dead_letters ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.relay_marks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON public.accounts USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.balances USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.entries USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.heads USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.log USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.relay_dead_letters USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.relay_marks USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
CREATE POLICY tenant ON public.transactions USING ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest)))) WITH CHECK ((((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid AS "nullif")) IS TRUE) OR (tenant_id IN ( SELECT unnest((NULLIF(current_setting('app.tenants'::text, true), ''::text))::uuid[]) AS unnest))));
ALTER TABLE public.transactions ENABLE ROW LEVEL SECURITY;
