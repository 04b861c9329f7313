// The function that replaces the payload of a posting: the service's role changes nothing of a log itself.

/**
 * SQL of the function `redact_event`: puts another payload in the place of a posting's and keeps the hash of the first one. Removes what else shows
 * the redacted texts: the reference, metadata under these keys, words but for `words` (with spaces between), results of jobs. Jobs that run begin
 * again, because they may have read the texts; an import is none of those.
 */
export const redactEvent = `create function redact_event(tenant uuid, posted bigint, replacement bytea, drops_reference boolean, keys text[], words text)
      returns void language plpgsql security definer set search_path = public, pg_temp
    as $$
      begin
        if nullif(current_setting('app.tenant', true), '')::uuid is distinct from tenant then
          raise exception 'the transaction is of another tenant' using errcode = 'insufficient_privilege';
        end if;
        insert into redactions (tenant_id, sequence, payload_hash)
        select tenant_id, sequence, sha256(payload) from log where tenant_id = tenant and sequence = posted and type = 'transaction.posted'
        on conflict do nothing;
        update log set payload = replacement where tenant_id = tenant and sequence = posted and type = 'transaction.posted';
        if not found then raise exception 'event % is no posting', posted; end if;
        if drops_reference then update transactions set reference = null where tenant_id = tenant and sequence = posted; end if;
        delete from transaction_metadata where tenant_id = tenant and sequence = posted and key = any(keys);
        if words = '' then
          delete from transaction_texts where tenant_id = tenant and sequence = posted;
        else
          update transaction_texts t set words = array_to_tsvector(string_to_array(redact_event.words, ' '))
          where tenant_id = tenant and sequence = posted;
        end if;
        -- Running ones first: this waits for one that is just ending, which is deleted then.
        update jobs set status = 'queued', runs = runs - 1, lease_id = null, leased_until = null
        where tenant_id = tenant and status = 'running' and kind <> 'import';
        delete from job_chunks c using jobs j
        where c.tenant_id = tenant and j.tenant_id = tenant and j.id = c.job_id and j.status = 'queued' and j.kind <> 'import';
        delete from jobs where tenant_id = tenant and status = 'succeeded' and kind <> 'import';
      end $$`;
