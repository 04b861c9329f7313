// @ts-nocheck
// Made by `npm run generate` from the OpenAPI document: do not edit.
import type { CallOptions, Operation } from '../call.ts';
import type { Listing } from '../listing.ts';
import type * as T from './types.gen.ts';

/** Every operation by noun and verb. */
export interface Resources {
  service: {
    /** This document. */
    document(options?: CallOptions): Promise<Record<string, unknown>>;
    /** Check whether the process runs. */
    health(options?: CallOptions): Promise<T.GetHealthResult>;
    /** Check whether postings can be answered. */
    readiness(options?: CallOptions): Promise<T.ReadinessResult>;
    /** Metrics for Prometheus. */
    metrics(options?: CallOptions): Promise<Response>;
    /** The public keys that verify access tokens. */
    keySet(options?: CallOptions): Promise<T.GetKeySetResult>;
  };
  auth: {
    /** Register. A second call with this email, in any case, is rejected (`email_taken`). Emails and passwords are compared in Unicode form NFC. */
    register(body: T.RegisterCall['body'], options?: CallOptions): Promise<T.UserData>;
    /** Log in. Wrong password and unknown email answer the same. The limits are 10 failures in 15 minutes per account and address, and 100 per address; only failures count. If the user has a second factor, `totp_code` is needed: without it the right password is answered `totp_required`. Each code is good once, and a user has 10 failures in 15 minutes from all addresses. Each login starts its own session. */
    login(body: T.LoginCall['body'], options?: CallOptions): Promise<T.SessionData>;
    /** Renew a session. Uses up the refresh token and returns a new one. A token that was already used ends all sessions of its login. */
    refresh(body: T.RefreshCall['body'], options?: CallOptions): Promise<T.SessionData>;
    /** Log out. Ends the session; its access token stays valid for its hour. A second call, or an unknown token, is answered the same. */
    logout(body: T.LogoutCall['body'], options?: CallOptions): Promise<Record<string, never>>;
    /** Mail a token that verifies the address. The token is valid for 24 hours. Nothing is sent if the address is verified. The limit is 5 mails an hour to an address, of all kinds together. */
    sendVerification(options?: CallOptions): Promise<Record<string, never>>;
    /** Verify an email address. Takes the token of a mail. Login works without it; invitations can be accepted only with a verified address. */
    verifyEmail(body: T.VerifyEmailCall['body'], options?: CallOptions): Promise<T.UserData>;
    /** Change my password. Ends all other sessions of the user at once, with their tokens, and all its access keys within 5 seconds. Wrong ones count as failed logins. A user without a password gets one by the mail of a password reset. */
    changePassword(body: T.ChangePasswordCall['body'], options?: CallOptions): Promise<Record<string, never>>;
    /** Mail a token that resets the password. The answer and its time are always the same, whether a user has this email or not. The token is valid for one hour. Beyond 5 mails an hour to an address nothing is sent. */
    forgotPassword(body: T.ForgotPasswordCall['body'], options?: CallOptions): Promise<Record<string, never>>;
    /** Set a new password with a mailed token. Ends all sessions of the user, its access tokens too, and all other reset tokens. Access keys end within 5 seconds. The second factor stays. API keys stay. Links to identity providers stay if the email address was verified. */
    resetPassword(body: T.ResetPasswordCall['body'], options?: CallOptions): Promise<Record<string, never>>;
    /** Create a second factor. Answers a secret for an authenticator (TOTP, RFC 6238: SHA-1, 6 digits, 30 seconds). Show `otpauth_url` as a QR code. Logins ask for codes once one is confirmed. A second call replaces the secret; if a second factor is on already, it is rejected (`forbidden`). Wrong ones count as failed logins. */
    startTotp(body: T.StartTotpCall['body'], options?: CallOptions): Promise<T.StartTotpData>;
    /** Turn the second factor off. Takes a JSON body. Its recovery codes end too, and access keys of the user to tenants that require a second factor end within 5 seconds. A second call is rejected (`forbidden`). Wrong ones count as failed logins. */
    deleteTotp(body: T.DeleteTotpCall['body'], options?: CallOptions): Promise<T.DeleteTotpData>;
    /** Turn the second factor on. From now on logins need a code. Each recovery code replaces one, once. A second call is rejected (`forbidden`). Wrong ones count as failed logins. */
    confirmTotp(body: T.ConfirmTotpCall['body'], options?: CallOptions): Promise<T.ConfirmTotpData>;
    /** Log in with an identity provider. For a browser: navigate to it. OpenID Connect, authorization code flow with PKCE. A cookie binds the login to the browser for 10 minutes. The provider must know the redirect URI `<PUBLIC_URL>/v1/auth/oidc/{provider}/callback`. */
    startOidc(provider: string, options: T.StartOidcCall['query'] & CallOptions): Promise<Response>;
    /** Return from an identity provider. The provider sends the browser here with its own parameters (RFC 6749, section 4.1.2). Without the cookie of a login that was begun in this browser less than 10 minutes ago the answer is 401. */
    finishOidc(provider: string, options?: CallOptions): Promise<Response>;
    /** Exchange a code for a session. The identity is issuer and subject of the provider. A new one joins the user with its email if the provider and this server both have verified it; if only one has, the answer is `email_taken`. Then log in as that user and link the identity, also with the same code. Without such a user one is created, without a password. After `totp_required` the code stays valid. Use only a code for which this page has sent the browser away. */
    exchangeOidcCode(body: T.ExchangeOidcCodeCall['body'], options?: CallOptions): Promise<T.SessionData>;
    /** Link an identity to my user. The user may have several, also of one provider. An identity that another user has is rejected (`email_taken`). */
    linkOidc(provider: string, body: T.LinkOidcCall['body'], options?: CallOptions): Promise<T.LinkOidcData>;
  };
  user: {
    /** Read the current user. */
    get(options?: CallOptions): Promise<T.GetUserData>;
    /** Read my audit log. Logins, failed logins and changes of credentials of the caller, newest first. Entries are kept for 400 days, the newest for good. Each is hashed with the one before. */
    audit(options?: T.ListUserAuditCall['query'] & CallOptions): Listing<T.AuditData, T.AuditData['audit'][number]>;
  };
  tenants: {
    /** Create a tenant. The caller becomes its owner. A second call with the same slug is rejected (`slug_taken`). There is no test mode: create a tenant for tests. */
    create(body: T.CreateTenantCall['body'], options?: CallOptions): Promise<T.TenantData>;
    /** List my tenants. Every tenant of which the caller is a member, with its role there; newest first. */
    list(options?: T.ListTenantsCall['query'] & CallOptions): Listing<T.ListTenantsData, T.ListTenantsData['tenants'][number]>;
    /** Require a second factor. For owners that have a second factor. Members without one are then rejected (`forbidden`) on every route of the tenant until they turn one on, and their access keys end within 5 seconds. API keys stay. A second call changes nothing. */
    update(body: T.UpdateTenantCall['body'], options?: CallOptions): Promise<T.TenantData>;
    /** Suspend a tenant. For owners. Makes its ledger read-only until it is resumed. API keys and access keys then read only: within 5 seconds every other call of them is rejected, also the rest of a running import. Of the routes for users only members, the audit log and these states still work. A second call changes nothing. */
    suspend(options?: CallOptions): Promise<T.TenantData>;
    /** Resume a suspended tenant. For owners. Keys may change its ledger again within 5 seconds. A second call changes nothing. */
    resume(options?: CallOptions): Promise<T.TenantData>;
    /** Close a tenant. For owners. Makes its ledger read-only and deletes it at `delete_at`, by default after 30 days. API keys and access keys then read only: within 5 seconds every other call of them is rejected, also the rest of a running import. Of the routes for users only members, the audit log and these states still work. After the deletion keys are unknown (401), and so is the tenant (404). Nothing is left but the slug, which stays taken, and the hash of the last event. A second call changes nothing. */
    close(options?: CallOptions): Promise<T.TenantData>;
    /** Reopen a closed tenant. For owners. Makes it active again, also if it was suspended before. Once its deletion has begun it is unknown (404). A second call changes nothing. */
    reopen(options?: CallOptions): Promise<T.TenantData>;
    /** Read the audit log. For owners and admins, also while the tenant is suspended or closed. Who changed keys, members, roles, invitations and the state of the tenant; newest first. What was posted stands in the events. Each entry is hashed with the one before. */
    audit(options?: T.ListAuditCall['query'] & CallOptions): Listing<T.AuditData, T.AuditData['audit'][number]>;
    /** Import a whole log. For owners. The body is `application/x-ndjson` of up to 16 GiB, or what the setting `IMPORT_MAX_GIB` allows: what `GET …/export/events` has answered, from the first event to its last line. The tenant must have no events (`books_not_empty`). */
    import(body: string | Uint8Array | ReadableStream<Uint8Array>, options?: CallOptions): Promise<T.JobData>;
  };
  members: {
    /** List members. For any member. Newest first. */
    list(options?: T.ListMembersCall['query'] & CallOptions): Listing<T.ListMembersData, T.ListMembersData['members'][number]>;
    /** Change the role of a member. For owners and admins of the tenant. Only owners make and change owners, and the last owner stays (`last_owner`). The member’s access keys end everywhere within 5 seconds. A lower role revokes the open invitations that it sent. The same role again changes nothing. */
    update(userId: string, body: T.UpdateMemberCall['body'], options?: CallOptions): Promise<T.UpdateMemberData>;
    /** Remove a member. For owners and admins of the tenant. Any member may remove itself. Only owners remove owners, and the last owner stays (`last_owner`). The member’s access keys end everywhere within 5 seconds. Open invitations that it sent are revoked. API keys that it made stay: revoke those that it may know. A second call is rejected (`member_not_found`). */
    remove(userId: string, options?: CallOptions): Promise<T.MemberRemovedData>;
  };
  invitations: {
    /** Invite a member. For owners and admins of the tenant. Only owners invite owners. Sends a mail with a token that is valid for 7 days. It replaces an open invitation to this address. The limit of mails to an address is 5 an hour, of all kinds together. */
    create(body: T.CreateInvitationCall['body'], options?: CallOptions): Promise<T.CreateInvitationData>;
    /** List invitations. For owners and admins of the tenant. Newest first, including accepted, revoked and expired ones. */
    list(options?: T.ListInvitationsCall['query'] & CallOptions): Listing<T.ListInvitationsData, T.ListInvitationsData['invitations'][number]>;
    /** Revoke an invitation. For owners and admins of the tenant. Its token ends at once. A second call is answered the same. An accepted invitation is not found: remove the member. */
    delete(invitationId: string, options?: CallOptions): Promise<T.InvitationRevokedData>;
    /** Accept an invitation. Makes the caller a member. The invitation must have been sent to the caller’s verified email (`email_unverified`, `forbidden`). A token works once. A call that is rejected for another reason leaves it valid. */
    accept(body: T.AcceptInvitationCall['body'], options?: CallOptions): Promise<T.AcceptInvitationData>;
  };
  keys: {
    /** Create an API key. For owners and admins of the tenant. A second call creates a second key. */
    create(body: T.CreateApiKeyCall['body'], options?: CallOptions): Promise<T.CreateApiKeyData>;
    /** List API keys. Newest first, including expired and revoked keys. */
    list(options?: T.ListApiKeysCall['query'] & CallOptions): Listing<T.ListApiKeysData, T.ListApiKeysData['api_keys'][number]>;
    /** Revoke an API key. For owners and admins of the tenant. The key stops working everywhere within 5 seconds. A second call is answered the same. */
    revoke(keyId: string, options?: CallOptions): Promise<T.RevokeApiKeyData>;
    /** Replace an API key. For owners and admins of the tenant. Creates a key with the same name, scopes, description and expiry. The old one expires after the overlap, if not before; without an overlap it is revoked. An expired or revoked key is not found. A second call creates another key and does not extend the old one. */
    rotate(keyId: string, body?: T.RotateApiKeyCall['body'], options?: CallOptions): Promise<T.RotateApiKeyData>;
    /** Get an access key. For any member. Exchanges the login for an API key that is valid for one hour, acts for the user and has no scope beyond the role. It ends within 5 seconds of a change of the role, of the end of the membership, or of a new password. It is not listed with the API keys. A second call creates another. */
    access(body?: T.CreateAccessCall['body'], options?: CallOptions): Promise<T.CreateAccessData>;
  };
  accounts: {
    /** Create the chart of accounts of a business. Creates all of its accounts or none. The same template again changes nothing; another one is rejected (`chart_exists`). */
    setUp(body: T.SetUpChartCall['body'], options?: CallOptions): Promise<T.ChartData>;
    /** Read the chart as a tree. An answer of more than 20,000 accounts is rejected (422 `too_large`): read it in parts with `root` and `depth`. If a single level has more, list its accounts page by page with `GET …/accounts`. Where `depth` cuts, `children_count` shows that there is more, and balances include it. `as_of`, `known_at` and `known_sequence` need `include=balances` and bound them as they bound a balance, of at most 100,000 accounts. Tree and balances are of one moment. A large answer is sent as it is read: a connection that ends early has failed. */
    tree(options?: T.GetHierarchyCall['query'] & CallOptions): Promise<T.GetHierarchyData>;
    /** Create an account. The parent must be an active group of the same type, and a chart is at most 32 deep (`parent_invalid`). Codes of system accounts, such as `SUSPENSE-NGN` and `FX-POSITION-NGN`, are taken (`account_code_taken`). A second call with the same code is rejected the same way. */
    create(body: T.CreateAccountCall['body'], options?: CallOptions): Promise<T.AccountData>;
    /** List accounts. Newest first. */
    list(options?: T.ListAccountsCall['query'] & CallOptions): Listing<T.ListAccountsData, T.ListAccountsData['accounts'][number]>;
    /** Create up to 1,000 accounts. All or none, in one commit; the rules are those of a single account, and each account is an event of its own. Errors name the account and its field, such as `accounts[3].parent_code`. A group that would be below itself is `parent_invalid`. A second call is rejected (`account_code_taken`); with `on_existing` `skip` it creates what is missing and changes nothing else. */
    createMany(body: T.CreateAccountsCall['body'], options?: CallOptions): Promise<T.AccountsData>;
    /** Read an account. Needs an API key with the scope `accounts:read`. */
    get(accountCode: string, options?: CallOptions): Promise<T.AccountData>;
    /** Change an account. Absent or null fields stay as they are. An empty description removes it. `metadata` replaces the previous one as a whole. `account_code`, `type`, `normal_balance`, `currency` and `is_group` never change: sending them is an error (tag `immutable`). A call that changes nothing, such as a second one without `version`, makes no new version and no event. `parent_code` moves an account or group with all below it; the new parent fits as for a new account, and is not the group itself or below it (`parent_invalid`). Balances and history stay. An account with a balance and a group with active accounts cannot be closed (`account_not_empty`). An account below a closed group cannot be reopened (`parent_invalid`). `allow_negative` cannot become false while `available` is below zero (`insufficient_funds`). */
    update(accountCode: string, body?: T.UpdateAccountCall['body'], options?: CallOptions): Promise<T.AccountData>;
    /** Read a balance. Includes every posting that has been answered. An account without postings has zeros. With `as_of` it is what counted until then, with `known_at` or `known_sequence` as it was known then: a posting recorded later for an earlier time changes the first, not the second. */
    balance(accountCode: string, options?: T.GetBalanceCall['query'] & CallOptions): Promise<T.GetBalanceData>;
    /** Read a balance day by day. Opening, movements and closing of each day of the books’ time zone by `effective_at`, oldest first, moved or not, at most 366 days. A day that the time zone skipped is left out. */
    dailyBalances(accountCode: string, options: T.ListDailyBalancesCall['query'] & CallOptions): Promise<T.ListDailyBalancesData>;
    /** Read the history of a balance. Newest first. */
    history(accountCode: string, options?: T.ListBalanceHistoryCall['query'] & CallOptions): Listing<T.ListBalanceHistoryData, T.ListBalanceHistoryData['history'][number]>;
  };
  limits: {
    /** Create a velocity limit. Limits how much moves on one side of an account, or of the accounts below a group, in a window of time: by `max_amount`, `max_count`, or both. From its creation on a transaction counts once, its entries on that side together. A hold counts when it is made, its capture not again; what is released is given back. Reversals neither count nor give back. A rolling window moves in steps of a sixtieth (whole seconds, rounded up), and its oldest step counts whole: no window ever exceeds the maximum. A calendar window begins anew at local midnight. Beyond it a request is refused (`limit_exceeded`, tag `max_amount` or `max_count`, value: the limit’s id), unless it has an `override_reason`, which is counted too. A tenant has at most 1,000 limits (`too_many`). A second call makes a second limit: after a lost answer, list them first. */
    create(body: T.CreateLimitCall['body'], options?: CallOptions): Promise<T.LimitData>;
    /** List velocity limits. Newest first. */
    list(options?: T.ListLimitsCall['query'] & CallOptions): Listing<T.ListLimitsData, T.ListLimitsData['limits'][number]>;
    /** Read a velocity limit. Needs an API key with the scope `accounts:read`. */
    get(limitId: string, options?: CallOptions): Promise<T.LimitData>;
    /** Change a velocity limit. Absent or null fields stay as they are. An empty name removes it. What it has counted stays. `account_code`, `applies`, `currency`, `side` and `window` never change: sending them is an error (tag `immutable`). A call that changes nothing, such as a second one without `version`, makes no new version and no event. */
    update(limitId: string, body?: T.UpdateLimitCall['body'], options?: CallOptions): Promise<T.LimitData>;
    /** Delete a velocity limit. It refuses and counts nothing from then on. A second call is rejected (`limit_not_found`). */
    delete(limitId: string, options?: CallOptions): Promise<T.LimitDeletedData>;
    /** Read what a velocity limit has counted. In its present window. An account that the limit does not count is `account_not_found`. */
    usage(limitId: string, options?: T.GetLimitUsageCall['query'] & CallOptions): Promise<T.GetLimitUsageData>;
  };
  transactions: {
    /** Post a single entry. A counter-entry on the suspense account of the currency balances it; that account is created on first use. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same kind, description, reference, metadata, `effective_at`, `require`, `valid_until` and `override_reason`, and the same entries in the same order, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call posts a second time: after a lost answer, check first whether it has posted. */
    postSingle(body: T.PostSingleCall['body'], options: T.PostSingleCall['query'] & CallOptions & { dry_run: true }): Promise<T.TransactionOrDryRunData>;
    postSingle(body: T.PostSingleCall['body'], options?: T.PostSingleCall['query'] & CallOptions): Promise<T.TransactionData>;
    /** List transactions. Newest first. A page of large items may have fewer than `limit`: check `has_more`. A page may be empty if few of many transactions match: go on while `has_more`. */
    list(options?: T.ListTransactionsCall['query'] & CallOptions): Listing<T.ListTransactionsData, T.ListTransactionsData['transactions'][number]>;
    /** Post a balanced transaction. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same kind, description, reference, metadata, `effective_at`, `require`, `valid_until` and `override_reason`, and the same entries in the same order, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call posts a second time: after a lost answer, check first whether it has posted. */
    post(body: T.PostDoubleCall['body'], options: T.PostDoubleCall['query'] & CallOptions & { dry_run: true }): Promise<T.TransactionOrDryRunData>;
    post(body: T.PostDoubleCall['body'], options?: T.PostDoubleCall['query'] & CallOptions): Promise<T.TransactionData>;
    /** Exchange one currency for another. Each currency is balanced by its FX position, which is created on first use. Give one amount and a rate, or both amounts. The entries are: debit leg, its fees, its FX position, the other FX position, credit leg, its fees, spread. A quote needs no record: its id is the key, its price the body, its end `valid_until`. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same body, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call exchanges a second time: after a lost answer, check first whether it has posted. */
    exchange(body: T.PostExchangeCall['body'], options: T.PostExchangeCall['query'] & CallOptions & { dry_run: true }): Promise<T.TransactionOrDryRunData>;
    exchange(body: T.PostExchangeCall['body'], options?: T.PostExchangeCall['query'] & CallOptions): Promise<T.TransactionData>;
    /** Reverse a transaction, or a part of it. Posts the mirror of all that is left of it, or of `amount` or `entries`. Several parts never exceed the transaction (`reversal_exceeded`); `unreversed` shows what is left, and `reversed_by` names the reversal that completed it. After that, and for a reversal itself: `already_reversed`. Without `entries` errors name the entries of the reversal, in the order of the original. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same transaction and body, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call for all that is left is rejected, but one for a part reverses a second part: send a key. */
    reverse(transactionId: string, body: T.ReverseTransactionCall['body'] | undefined, options: T.ReverseTransactionCall['query'] & CallOptions & { dry_run: true }): Promise<T.TransactionOrDryRunData>;
    reverse(transactionId: string, body?: T.ReverseTransactionCall['body'], options?: T.ReverseTransactionCall['query'] & CallOptions): Promise<T.TransactionData>;
    /** Redact texts of a transaction. For what slipped in: removes texts from a posted transaction for ever, also from its event, searches, exports and stored deliveries, which end even if they are pending. Finished jobs with results are deleted, because they may hold the texts. `redacted` names the fields; amounts stay, and so do the event’s hash and all proofs. */
    redact(transactionId: string, body: T.RedactTransactionCall['body'], options?: CallOptions): Promise<T.TransactionData>;
    /** Post, hold, capture, void and reverse many at once. An item is the body of its route with `op`, its key, and `hold_id` or `transaction_id` where the route has it in the path. Items are decided in their order. The body may have 4 MiB. The header `Idempotency-Key` is rejected. */
    batch(body: T.SubmitBatchCall['body'], options: T.SubmitBatchCall['query'] & CallOptions & { dry_run: true }): Promise<T.BatchOrDryRunData>;
    batch(body: T.SubmitBatchCall['body'], options?: T.SubmitBatchCall['query'] & CallOptions): Promise<T.BatchData>;
    /** Read a transaction. Needs an API key with the scope `transactions:read`. */
    get(transactionId: string, options?: CallOptions): Promise<T.TransactionData>;
    /** Import any number of items. The body is `application/x-ndjson` of any length: each line is an item of a batch of at most 1 MiB, with its `idempotency_key`. Blank lines are skipped; they count as lines. Lines are decided in their order, each by itself. A dry run tries each line alone, as if the others were not there. */
    import(body: string | Uint8Array | ReadableStream<Uint8Array>, options?: T.ImportTransactionsCall['query'] & CallOptions): Promise<Response>;
  };
  subjects: {
    /** Erase a subject of personal data. Deletes the key of the subject’s data and its name for ever: no read shows them any more. The transactions stay as they are, so hashes and proofs do as well. The log gets the event `subject.erased`. A second call is 404; after a lost answer that says that the first one was done. Postings that name the subject later make a new one. Backups and receivers of webhooks keep what they have. */
    erase(body: T.EraseSubjectCall['body'], options?: CallOptions): Promise<T.ErasedSubjectData>;
  };
  filters: {
    /** List filters. All of them, by name. */
    list(options?: CallOptions): Promise<T.ListFiltersData>;
    /** Keep a query under a name. `GET …/transactions?filter=<name>` takes its parameters; parameters next to it win. The same name again replaces it. Whether keys of metadata are indexed is checked when it is used. A tenant has at most 100 filters (`too_many`). */
    set(name: string, body: T.PutFilterCall['body'], options?: CallOptions): Promise<T.PutFilterData>;
    /** Delete a filter. Needs an API key with the scope `transactions:read`. */
    delete(name: string, options?: CallOptions): Promise<T.DeleteFilterData>;
  };
  reports: {
    /** Count transactions and sum their debits. For each day, week or month by `effective_at`, oldest first, also where nothing was posted: how many transactions have entries in the currency, and the sum of their debits. At most 1,000 points. `date` is the first day of a point within the range. What was posted within the last two seconds may be missing. */
    volume(options: T.GetVolumeCall['query'] & CallOptions): Promise<T.GetVolumeData>;
    /** Make a trial balance. Each account’s `opening`, `debits`, `credits` and `closing`, of `from` to `to`, or up to `as_of`. A balance is positive where it is a debit; `debit` and `credit` show the closing on its side. */
    trialBalance(options: T.GetTrialBalanceCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    trialBalance(options?: T.GetTrialBalanceCall['query'] & CallOptions): Promise<T.TrialBalanceData>;
    /** Start a trial balance as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startTrialBalance(body?: T.StartTrialBalanceCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make a balance sheet. Assets, liabilities and equity. Equity has two computed lines for what no year end has closed yet: `earnings_prior` from before the fiscal year, `earnings_current` from within it. So it balances, closed or not. */
    balanceSheet(options: T.GetBalanceSheetCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    balanceSheet(options?: T.GetBalanceSheetCall['query'] & CallOptions): Promise<T.BalanceSheetData>;
    /** Start a balance sheet as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startBalanceSheet(body?: T.StartBalanceSheetCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make an income statement. Revenue and expense of a period, and the total `net_income`. Closing transactions and their reversals are left out. */
    incomeStatement(options: T.GetIncomeStatementCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    incomeStatement(options?: T.GetIncomeStatementCall['query'] & CallOptions): Promise<T.IncomeStatementData>;
    /** Start an income statement as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startIncomeStatement(body?: T.StartIncomeStatementCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make a cash flow statement. By the direct method: the entries next to one on `cash_accounts` of the books, in the same transaction and currency, by account. The sections `operating`, `investing` and `financing` follow `metadata.cash_flow` of the account; without it equity is financing and all else operating. Totals include `opening_cash` and `closing_cash`. */
    cashFlow(options: T.GetCashFlowCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    cashFlow(options?: T.GetCashFlowCall['query'] & CallOptions): Promise<T.CashFlowData>;
    /** Start a cash flow statement as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startCashFlow(body?: T.StartCashFlowCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make an account’s statement. Each entry of one account and currency with the balance after it, oldest first, and the balances at both ends. */
    accountStatement(options: T.GetAccountStatementCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    accountStatement(options: T.GetAccountStatementCall['query'] & CallOptions): Listing<T.AccountStatementData, T.AccountStatementData['report']['lines'][number]>;
    /** Start an account’s statement as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startAccountStatement(body: T.StartAccountStatementCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make a general ledger. A statement for each account and currency. Repeat `account_code` for several. */
    generalLedger(options: T.GetGeneralLedgerCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    generalLedger(options?: T.GetGeneralLedgerCall['query'] & CallOptions): Listing<T.GeneralLedgerData, T.GeneralLedgerData['report']['statements'][number]>;
    /** Start a general ledger as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startGeneralLedger(body?: T.StartGeneralLedgerCall['body'], options?: CallOptions): Promise<T.JobData>;
    /** Make a journal. Transactions with their entries, oldest first. */
    journal(options: T.GetJournalCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    journal(options?: T.GetJournalCall['query'] & CallOptions): Listing<T.JournalData, T.JournalData['report']['lines'][number]>;
    /** Start a journal as a job. Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first. */
    startJournal(body?: T.StartJournalCall['body'], options?: CallOptions): Promise<T.JobData>;
  };
  holds: {
    /** Reserve money. Nothing moves: the entries count as pending, and `available` of the accounts that they would lower goes down. Keys of holds are no keys of transactions, so a hold and its capture may have the same. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same body, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call holds a second time: after a lost answer, check first whether it has been made. */
    create(body: T.CreateHoldCall['body'], options: T.CreateHoldCall['query'] & CallOptions & { dry_run: true }): Promise<T.HoldOrDryRunData>;
    create(body: T.CreateHoldCall['body'], options?: T.CreateHoldCall['query'] & CallOptions): Promise<T.HoldData>;
    /** List holds. Newest first. A page of large items may have fewer than `limit`: check `has_more`. Its captures: `GET …/transactions?hold_id=`. A hold that is due reads `pending` until its event is written, at most 2 seconds; from `expires_at` on it can’t be captured in any case. */
    list(options?: T.ListHoldsCall['query'] & CallOptions): Listing<T.ListHoldsData, T.ListHoldsData['holds'][number]>;
    /** Move what a hold has reserved. Posts a transaction of the kind `capture` of all that remains, or of `amount` or `entries`, and releases the rest unless `final` is false. Limits and floors do not refuse it, because the hold has counted already; blocks and conditions do. A capture is reversed and refunded like any transaction; that does not revive the hold. The same request with the same key is answered 200 with what the first one has made, as it is now. Another request with that key is rejected (`idempotency_key_reused`). Requests are the same if they have the same hold and body, however amounts and metadata are written. Keys are per tenant, whichever API key sends them. A rejected request does not use up its key. After a 503, or without an answer within 10 seconds, send the same request again with the same key. If you retry earlier and are rejected, check 10 seconds later by `idempotency_key` whether the first request has posted. Without a key a second call of a part captures a second part: send a key. */
    capture(holdId: string, body: T.CaptureHoldCall['body'] | undefined, options: T.CaptureHoldCall['query'] & CallOptions & { dry_run: true }): Promise<T.CaptureOrDryRunData>;
    capture(holdId: string, body?: T.CaptureHoldCall['body'], options?: T.CaptureHoldCall['query'] & CallOptions): Promise<T.CaptureData>;
    /** Release what remains of a hold. Also after captures of parts. Neither limits nor blocks refuse it. A hold that is voided already is answered as it is, with `Idempotent-Replayed`; one that ended otherwise is rejected (`hold_ended`). */
    void(holdId: string, body?: T.VoidHoldCall['body'], options?: T.VoidHoldCall['query'] & CallOptions): Promise<T.VoidData>;
    /** Read a hold. Needs an API key with the scope `transactions:read`. */
    get(holdId: string, options?: CallOptions): Promise<T.HoldData>;
  };
  books: {
    /** Read the settings of the books. Defaults where nothing was set; then `version` is 0. */
    get(options?: CallOptions): Promise<T.BooksData>;
    /** Change the settings of the books. Absent or null fields stay as they are; a list replaces the one before. A call that changes nothing, such as a second one without `version`, makes no new version and no event (`books.updated`). */
    update(body?: T.UpdateBooksCall['body'], options?: CallOptions): Promise<T.BooksData>;
  };
  jobs: {
    /** List jobs. Newest first. Jobs whose start needed a scope that the key lacks are left out. */
    list(options?: T.ListJobsCall['query'] & CallOptions): Listing<T.ListJobsData, T.ListJobsData['jobs'][number]>;
    /** Read a job. What takes long is a job: it is `queued`, then `running`, and ends as `succeeded`, `failed` or `cancelled`. Three jobs of a tenant run at a time. After a crash a job runs again. Needs the scope that its start needed. */
    get(jobId: string, options?: CallOptions): Promise<T.JobData>;
    /** Cancel or remove a job. Cancels a job that has not ended; it stays in the list as `cancelled`. Removes one that has ended, with its result. A second call answers 404. */
    delete(jobId: string, options?: CallOptions): Promise<T.DeleteJobData>;
    /** Download the result of a job. The bytes, with the content type that `result` of the job names. They never change: after a cut go on with `Range: bytes=<from>-`, and `If-Range` with the `ETag`, which is the SHA-256. */
    result(jobId: string, options?: CallOptions): Promise<Response>;
  };
  exports: {
    /** Export the audit trail. Oldest first, with all that the hashes are made of: `hash` is sha256(previous hash ‖ sha256(`header`) ‖ sha256(`payload`)), where `payload` is the base64 of a `ledger.v1` message. Of a redacted event `payload` is null, `payload_hash` is that of what was posted, and `redacted_payload` is what stands. The last line has a `checkpoint` where one was signed for exactly these events. */
    events(options?: T.ExportEventsCall['query'] & CallOptions): Promise<Response>;
    /** Export transactions. Oldest first, as `GET …/transactions` shows them, and with its filters. CSV has a row for each, without its entries. */
    transactions(options?: T.ExportTransactionsCall['query'] & CallOptions): Promise<Response>;
    /** Export entries. All entries of transactions, oldest first. Filters are those of `GET …/transactions`. */
    entries(options?: T.ExportEntriesCall['query'] & CallOptions): Promise<Response>;
    /** Export accounts. Accounts and groups, oldest first. */
    accounts(options?: T.ExportAccountsCall['query'] & CallOptions): Promise<Response>;
    /** Export balances. Balances of all accounts in each currency in which they were moved. Holds do not count. */
    balances(options?: T.ExportBalancesCall['query'] & CallOptions): Promise<Response>;
    /** Export everything. Accounts, transactions, entries and balances, each line as `{"type", "data"}` with the type `account`, `transaction`, `entry` or `balance`. Needs the scopes `accounts:read` and `balances:read` as well. */
    everything(options?: T.ExportEverythingCall['query'] & CallOptions): Promise<Response>;
  };
  periods: {
    /** Close a period. Closes all that counts until the end of a day: a posting dated before is refused (`period_closed`), or counts from the first open millisecond on, as the books’ `late_entries` says. Postings without `effective_at` are not affected. */
    close(body: T.ClosePeriodCall['body'], options?: CallOptions): Promise<T.PeriodData>;
    /** Reopen periods. Leaves closed only what ends at or before a day. Closing transactions stay: reverse them, or close the year again. A repeated call answers the same period with 200. */
    reopen(body: T.ReopenPeriodCall['body'], options?: CallOptions): Promise<T.PeriodData>;
    /** List closings and reopenings. Newest first. What is closed now stands in `closed_through` of the books. */
    list(options?: T.ListPeriodsCall['query'] & CallOptions): Listing<T.ListPeriodsData, T.ListPeriodsData['periods'][number]>;
  };
  events: {
    /** Read the audit trail. Oldest first, without gaps. Each event has the hash of the previous one; the first has 64 zeros. A page of large items may have fewer than `limit`: check `has_more`. The next page begins after the last event’s `sequence`. */
    list(options?: T.ListEventsCall['query'] & CallOptions): Listing<T.ListEventsData, T.ListEventsData['events'][number]>;
    /** Stream the audit trail. Server-Sent Events, oldest first, without gaps, and then as they happen, within a second. `event` is the type, `data` an event as `GET …/events` shows it, `id` its sequence. */
    stream(options?: T.StreamEventsCall['query'] & CallOptions): Promise<Response>;
  };
  proofs: {
    /** Prove a transaction. Says that the event stands in the log whose root a checkpoint has signed. Who has it, and the `vkey`, can check it offline with `verify.mjs`, `verify.py` or any other verifier of the format; nothing of this server has to be trusted. Without a checkpoint that holds the event yet, one is signed. */
    transaction(transactionId: string, options: T.GetTransactionProofCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    transaction(transactionId: string, options?: T.GetTransactionProofCall['query'] & CallOptions): Promise<T.ProofData>;
    /** Prove an event. Says that the event stands in the log whose root a checkpoint has signed. Who has it, and the `vkey`, can check it offline with `verify.mjs`, `verify.py` or any other verifier of the format; nothing of this server has to be trusted. Without a checkpoint that holds the event yet, one is signed. */
    event(sequence: string, options: T.GetEventProofCall['query'] & CallOptions & { format: 'csv' | 'xlsx' | 'pdf' }): Promise<Response>;
    event(sequence: string, options?: T.GetEventProofCall['query'] & CallOptions): Promise<T.ProofData>;
    /** Prove that nothing before has changed. Says that the log of a later checkpoint begins with that of an earlier one (RFC 6962, section 2.1.2). Take both sizes from checkpoints that you have, and check the path against their roots. */
    consistency(options: T.GetConsistencyCall['query'] & CallOptions): Promise<T.GetConsistencyData>;
    /** List the keys of checkpoints. Verifiers need the `vkey` of the key that signed. Keep it yourself: who could change the log could answer another one here. */
    keys(options?: CallOptions): Promise<T.ListCheckpointKeysData>;
    /** Read the newest checkpoint. A signed note of https://c2sp.org/tlog-checkpoint: name, size and root of the log, and signatures, also those of witnesses. Keep it: by it you can prove later that nothing before has changed. A new one is signed about every minute while events arrive. */
    checkpoint(options?: CallOptions): Promise<Response>;
    /** Read the entries of a tile. The data of up to 256 leaves, each after its length in two bytes: the 32 bytes of `hash` of an event. The events themselves are in the export of events. */
    entries(tile: string, options?: CallOptions): Promise<Response>;
    /** Read a tile of the tree. Up to 256 hashes of one level of the Merkle tree. Those of level 0 are the leaves’: sha256(0x00 ‖ `hash` of the event). A path like `x001/x234/067` may also be sent with plain slashes. */
    tile(level: string, tile: string, options?: CallOptions): Promise<Response>;
  };
  webhooks: {
    /** Configure the webhook. A tenant has one webhook. Another call replaces `url`, `events`, `enabled` (default true) and `headers` (default none); the secret stays unless a new one is sent. At most 10 requests a minute. */
    configure(body: T.ConfigureWebhookCall['body'], options?: CallOptions): Promise<T.WebhookConfigData>;
    /** Read the configuration. Needs an API key with the scope `webhooks:manage`. */
    get(options?: CallOptions): Promise<T.GetWebhookData>;
    /** Change the configuration. Absent or null fields stay as they are. `/webhooks` and `/webhooks/config` are equivalent. */
    update(body?: T.UpdateWebhookCall['body'], options?: CallOptions): Promise<T.WebhookConfigData>;
    /** Delete the configuration. Pending deliveries fail without being sent. A second call is rejected (`webhook_not_configured`). `/webhooks` and `/webhooks/config` are equivalent. */
    delete(options?: CallOptions): Promise<T.WebhookDeletedData>;
    /** Rotate the secret. During the overlap `webhook-signature` has signatures of both secrets, `X-Webhook-Signature` that of the new one. A second call makes another secret: the overlap is then with the previous one, and older ones end. */
    rotateSecret(body?: T.RotateWebhookSecretCall['body'], options?: CallOptions): Promise<T.WebhookConfigData>;
    /** Send a test delivery. Sent at once, even if the webhook is disabled or not subscribed. Recorded, and not retried automatically. Each call sends another one. At most 20 requests an hour. */
    test(body?: T.TestWebhookCall['body'], options?: CallOptions): Promise<T.TestWebhookData>;
  };
  deliveries: {
    /** List deliveries. Newest first, with the configuration (null: none). */
    list(options?: T.ListDeliveriesCall['query'] & CallOptions): Listing<T.ListDeliveriesData, T.ListDeliveriesData['deliveries'][number]>;
    /** Retry failed deliveries. One attempt of each failed delivery that matches the filters, the oldest first, up to 1,000 in one request. Dates filter by `created_at`. A delivery whose attempt fails is failed again. Repeat the request while `remaining` is not 0. Counts as one of the 5 retries an hour. */
    retryAll(body?: T.RetryDeliveriesCall['body'], options?: CallOptions): Promise<T.RetryDeliveriesData>;
    /** Read a delivery. With the payload, the receiver’s last answer, and every attempt. */
    get(deliveryId: string, options?: CallOptions): Promise<T.GetDeliveryData>;
    /** Retry a failed delivery. One attempt, at once. If it fails, the delivery is failed again. A second call before that is rejected (`delivery_not_failed`). At most 5 requests an hour. */
    retry(deliveryId: string, options?: CallOptions): Promise<T.RetryDeliveryData>;
  };
}

/** What the client sends for each. */
export const operations: { readonly [Noun in keyof Resources]: { readonly [Verb in keyof Resources[Noun]]: Operation } } = {
  service: {
    document: {"method":"GET","path":"/openapi.json","by":"none","answer":"json","repeatable":true},
    health: {"method":"GET","path":"/healthz","by":"none","answer":"json","repeatable":true},
    readiness: {"method":"GET","path":"/readyz","by":"none","answer":"json","repeatable":true},
    metrics: {"method":"GET","path":"/metrics","by":"none","answer":"response","repeatable":true},
    keySet: {"method":"GET","path":"/.well-known/jwks.json","by":"none","answer":"json","repeatable":true},
  },
  auth: {
    register: {"method":"POST","path":"/v1/auth/register","by":"none","body":"application/json"},
    login: {"method":"POST","path":"/v1/auth/login","by":"none","body":"application/json"},
    refresh: {"method":"POST","path":"/v1/auth/refresh","by":"none","body":"application/json"},
    logout: {"method":"POST","path":"/v1/auth/logout","by":"none","body":"application/json"},
    sendVerification: {"method":"POST","path":"/v1/auth/email/send","by":"token"},
    verifyEmail: {"method":"POST","path":"/v1/auth/email/verify","by":"none","body":"application/json"},
    changePassword: {"method":"POST","path":"/v1/auth/password/change","by":"token","body":"application/json"},
    forgotPassword: {"method":"POST","path":"/v1/auth/password/forgot","by":"none","body":"application/json"},
    resetPassword: {"method":"POST","path":"/v1/auth/password/reset","by":"none","body":"application/json"},
    startTotp: {"method":"POST","path":"/v1/auth/totp","by":"token","body":"application/json"},
    deleteTotp: {"method":"DELETE","path":"/v1/auth/totp","by":"token","body":"application/json"},
    confirmTotp: {"method":"POST","path":"/v1/auth/totp/confirm","by":"token","body":"application/json"},
    startOidc: {"method":"GET","path":"/v1/auth/oidc/{provider}/start","by":"none","answer":"response","repeatable":true},
    finishOidc: {"method":"GET","path":"/v1/auth/oidc/{provider}/callback","by":"none","answer":"response","repeatable":true},
    exchangeOidcCode: {"method":"POST","path":"/v1/auth/oidc/token","by":"none","body":"application/json"},
    linkOidc: {"method":"POST","path":"/v1/auth/oidc/{provider}/link","by":"token","body":"application/json"},
  },
  user: {
    get: {"method":"GET","path":"/v1/user","by":"token","repeatable":true},
    audit: {"method":"GET","path":"/v1/user/audit","by":"token","repeatable":true,"paging":{"by":"cursor","items":"audit"}},
  },
  tenants: {
    create: {"method":"POST","path":"/v1/tenants","by":"token","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants","by":"token","repeatable":true,"paging":{"by":"cursor","items":"tenants"}},
    update: {"method":"PATCH","path":"/v1/tenants/{tenant_id}","by":"token","body":"application/json"},
    suspend: {"method":"POST","path":"/v1/tenants/{tenant_id}/suspend","by":"token"},
    resume: {"method":"POST","path":"/v1/tenants/{tenant_id}/resume","by":"token"},
    close: {"method":"POST","path":"/v1/tenants/{tenant_id}/close","by":"token"},
    reopen: {"method":"POST","path":"/v1/tenants/{tenant_id}/reopen","by":"token"},
    audit: {"method":"GET","path":"/v1/tenants/{tenant_id}/audit","by":"token","repeatable":true,"paging":{"by":"cursor","items":"audit"}},
    import: {"method":"POST","path":"/v1/tenants/{tenant_id}/import","by":"token","body":"application/x-ndjson"},
  },
  members: {
    list: {"method":"GET","path":"/v1/tenants/{tenant_id}/members","by":"token","repeatable":true,"paging":{"by":"cursor","items":"members"}},
    update: {"method":"PATCH","path":"/v1/tenants/{tenant_id}/members/{user_id}","by":"token","body":"application/json"},
    remove: {"method":"DELETE","path":"/v1/tenants/{tenant_id}/members/{user_id}","by":"token"},
  },
  invitations: {
    create: {"method":"POST","path":"/v1/tenants/{tenant_id}/invitations","by":"token","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants/{tenant_id}/invitations","by":"token","repeatable":true,"paging":{"by":"cursor","items":"invitations"}},
    delete: {"method":"DELETE","path":"/v1/tenants/{tenant_id}/invitations/{invitation_id}","by":"token"},
    accept: {"method":"POST","path":"/v1/invitations/accept","by":"token","body":"application/json"},
  },
  keys: {
    create: {"method":"POST","path":"/v1/tenants/{tenant_id}/api-keys","by":"token","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants/{tenant_id}/api-keys","by":"token","repeatable":true,"paging":{"by":"cursor","items":"api_keys"}},
    revoke: {"method":"DELETE","path":"/v1/tenants/{tenant_id}/api-keys/{key_id}","by":"token"},
    rotate: {"method":"POST","path":"/v1/tenants/{tenant_id}/api-keys/{key_id}/rotate","by":"token","body":"application/json"},
    access: {"method":"POST","path":"/v1/tenants/{tenant_id}/access","by":"token","body":"application/json"},
  },
  accounts: {
    setUp: {"method":"POST","path":"/v1/tenants/{slug}/accounts/setup","by":"key","body":"application/json"},
    tree: {"method":"GET","path":"/v1/tenants/{slug}/accounts/hierarchy","by":"key","repeatable":true},
    create: {"method":"POST","path":"/v1/tenants/{slug}/accounts","by":"key","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants/{slug}/accounts","by":"key","repeatable":true,"paging":{"by":"cursor","items":"accounts"}},
    createMany: {"method":"POST","path":"/v1/tenants/{slug}/accounts/batch","by":"key","body":"application/json"},
    get: {"method":"GET","path":"/v1/tenants/{slug}/accounts/code/{account_code}","by":"key","repeatable":true},
    update: {"method":"PATCH","path":"/v1/tenants/{slug}/accounts/code/{account_code}","by":"key","body":"application/json"},
    balance: {"method":"GET","path":"/v1/tenants/{slug}/accounts/code/{account_code}/balance","by":"key","repeatable":true},
    dailyBalances: {"method":"GET","path":"/v1/tenants/{slug}/accounts/code/{account_code}/balance/daily","by":"key","repeatable":true},
    history: {"method":"GET","path":"/v1/tenants/{slug}/accounts/code/{account_code}/balance/history","by":"key","repeatable":true,"paging":{"by":"cursor","items":"history"}},
  },
  limits: {
    create: {"method":"POST","path":"/v1/tenants/{slug}/limits","by":"key","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants/{slug}/limits","by":"key","repeatable":true,"paging":{"by":"cursor","items":"limits"}},
    get: {"method":"GET","path":"/v1/tenants/{slug}/limits/{limit_id}","by":"key","repeatable":true},
    update: {"method":"PATCH","path":"/v1/tenants/{slug}/limits/{limit_id}","by":"key","body":"application/json"},
    delete: {"method":"DELETE","path":"/v1/tenants/{slug}/limits/{limit_id}","by":"key"},
    usage: {"method":"GET","path":"/v1/tenants/{slug}/limits/{limit_id}/usage","by":"key","repeatable":true},
  },
  transactions: {
    postSingle: {"method":"POST","path":"/v1/tenants/{slug}/transactions","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    list: {"method":"GET","path":"/v1/tenants/{slug}/transactions","by":"key","repeatable":true,"paging":{"by":"cursor","items":"transactions"}},
    post: {"method":"POST","path":"/v1/tenants/{slug}/transactions/double-entry","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    exchange: {"method":"POST","path":"/v1/tenants/{slug}/transactions/exchange","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    reverse: {"method":"POST","path":"/v1/tenants/{slug}/transactions/{transaction_id}/reverse","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    redact: {"method":"POST","path":"/v1/tenants/{slug}/transactions/{transaction_id}/redact","by":"key","body":"application/json"},
    batch: {"method":"POST","path":"/v1/tenants/{slug}/transactions/batch","by":"key","body":"application/json","repeatable":true},
    get: {"method":"GET","path":"/v1/tenants/{slug}/transactions/{transaction_id}","by":"key","repeatable":true},
    import: {"method":"POST","path":"/v1/tenants/{slug}/transactions/import","by":"key","body":"application/x-ndjson","answer":"response","repeatable":true},
  },
  subjects: {
    erase: {"method":"POST","path":"/v1/tenants/{slug}/subjects/erase","by":"key","body":"application/json"},
  },
  filters: {
    list: {"method":"GET","path":"/v1/tenants/{slug}/filters","by":"key","repeatable":true},
    set: {"method":"PUT","path":"/v1/tenants/{slug}/filters/{name}","by":"key","body":"application/json","repeatable":true},
    delete: {"method":"DELETE","path":"/v1/tenants/{slug}/filters/{name}","by":"key"},
  },
  reports: {
    volume: {"method":"GET","path":"/v1/tenants/{slug}/statistics/volume","by":"key","repeatable":true},
    trialBalance: {"method":"GET","path":"/v1/tenants/{slug}/reports/trial-balance","by":"key","repeatable":true},
    startTrialBalance: {"method":"POST","path":"/v1/tenants/{slug}/reports/trial-balance","by":"key","body":"application/json"},
    balanceSheet: {"method":"GET","path":"/v1/tenants/{slug}/reports/balance-sheet","by":"key","repeatable":true},
    startBalanceSheet: {"method":"POST","path":"/v1/tenants/{slug}/reports/balance-sheet","by":"key","body":"application/json"},
    incomeStatement: {"method":"GET","path":"/v1/tenants/{slug}/reports/income-statement","by":"key","repeatable":true},
    startIncomeStatement: {"method":"POST","path":"/v1/tenants/{slug}/reports/income-statement","by":"key","body":"application/json"},
    cashFlow: {"method":"GET","path":"/v1/tenants/{slug}/reports/cash-flow","by":"key","repeatable":true},
    startCashFlow: {"method":"POST","path":"/v1/tenants/{slug}/reports/cash-flow","by":"key","body":"application/json"},
    accountStatement: {"method":"GET","path":"/v1/tenants/{slug}/reports/account-statement","by":"key","repeatable":true,"paging":{"by":"cursor","items":"report.lines"}},
    startAccountStatement: {"method":"POST","path":"/v1/tenants/{slug}/reports/account-statement","by":"key","body":"application/json"},
    generalLedger: {"method":"GET","path":"/v1/tenants/{slug}/reports/general-ledger","by":"key","repeatable":true,"paging":{"by":"cursor","items":"report.statements"}},
    startGeneralLedger: {"method":"POST","path":"/v1/tenants/{slug}/reports/general-ledger","by":"key","body":"application/json"},
    journal: {"method":"GET","path":"/v1/tenants/{slug}/reports/journal","by":"key","repeatable":true,"paging":{"by":"cursor","items":"report.lines"}},
    startJournal: {"method":"POST","path":"/v1/tenants/{slug}/reports/journal","by":"key","body":"application/json"},
  },
  holds: {
    create: {"method":"POST","path":"/v1/tenants/{slug}/holds","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    list: {"method":"GET","path":"/v1/tenants/{slug}/holds","by":"key","repeatable":true,"paging":{"by":"cursor","items":"holds"}},
    capture: {"method":"POST","path":"/v1/tenants/{slug}/holds/{hold_id}/capture","by":"key","body":"application/json","takesKey":true,"repeatable":true},
    void: {"method":"POST","path":"/v1/tenants/{slug}/holds/{hold_id}/void","by":"key","body":"application/json","repeatable":true},
    get: {"method":"GET","path":"/v1/tenants/{slug}/holds/{hold_id}","by":"key","repeatable":true},
  },
  books: {
    get: {"method":"GET","path":"/v1/tenants/{slug}/books","by":"key","repeatable":true},
    update: {"method":"PATCH","path":"/v1/tenants/{slug}/books","by":"key","body":"application/json"},
  },
  jobs: {
    list: {"method":"GET","path":"/v1/tenants/{slug}/jobs","by":"key","repeatable":true,"paging":{"by":"cursor","items":"jobs"}},
    get: {"method":"GET","path":"/v1/tenants/{slug}/jobs/{job_id}","by":"key","repeatable":true},
    delete: {"method":"DELETE","path":"/v1/tenants/{slug}/jobs/{job_id}","by":"key"},
    result: {"method":"GET","path":"/v1/tenants/{slug}/jobs/{job_id}/result","by":"key","answer":"response","repeatable":true},
  },
  exports: {
    events: {"method":"GET","path":"/v1/tenants/{slug}/export/events","by":"key","answer":"response","repeatable":true},
    transactions: {"method":"GET","path":"/v1/tenants/{slug}/export/transactions","by":"key","answer":"response","repeatable":true},
    entries: {"method":"GET","path":"/v1/tenants/{slug}/export/entries","by":"key","answer":"response","repeatable":true},
    accounts: {"method":"GET","path":"/v1/tenants/{slug}/export/accounts","by":"key","answer":"response","repeatable":true},
    balances: {"method":"GET","path":"/v1/tenants/{slug}/export/balances","by":"key","answer":"response","repeatable":true},
    everything: {"method":"GET","path":"/v1/tenants/{slug}/export/everything","by":"key","answer":"response","repeatable":true},
  },
  periods: {
    close: {"method":"POST","path":"/v1/tenants/{slug}/periods/close","by":"key","body":"application/json"},
    reopen: {"method":"POST","path":"/v1/tenants/{slug}/periods/reopen","by":"key","body":"application/json"},
    list: {"method":"GET","path":"/v1/tenants/{slug}/periods","by":"key","repeatable":true,"paging":{"by":"cursor","items":"periods"}},
  },
  events: {
    list: {"method":"GET","path":"/v1/tenants/{slug}/events","by":"key","repeatable":true,"paging":{"by":"after_sequence","items":"events"}},
    stream: {"method":"GET","path":"/v1/tenants/{slug}/events/stream","by":"key","answer":"response","repeatable":true},
  },
  proofs: {
    transaction: {"method":"GET","path":"/v1/tenants/{slug}/transactions/{transaction_id}/proof","by":"key","repeatable":true},
    event: {"method":"GET","path":"/v1/tenants/{slug}/events/{sequence}/proof","by":"key","repeatable":true},
    consistency: {"method":"GET","path":"/v1/tenants/{slug}/tlog/consistency","by":"key","repeatable":true},
    keys: {"method":"GET","path":"/v1/tenants/{slug}/tlog/keys","by":"key","repeatable":true},
    checkpoint: {"method":"GET","path":"/v1/tenants/{slug}/tlog/checkpoint","by":"key","answer":"response","repeatable":true},
    entries: {"method":"GET","path":"/v1/tenants/{slug}/tlog/tile/entries/{tile}","by":"key","answer":"response","repeatable":true},
    tile: {"method":"GET","path":"/v1/tenants/{slug}/tlog/tile/{level}/{tile}","by":"key","answer":"response","repeatable":true},
  },
  webhooks: {
    configure: {"method":"POST","path":"/v1/tenants/{slug}/webhooks","by":"key","body":"application/json"},
    get: {"method":"GET","path":"/v1/tenants/{slug}/webhooks/config","by":"key","repeatable":true},
    update: {"method":"PATCH","path":"/v1/tenants/{slug}/webhooks/config","by":"key","body":"application/json"},
    delete: {"method":"DELETE","path":"/v1/tenants/{slug}/webhooks/config","by":"key"},
    rotateSecret: {"method":"POST","path":"/v1/tenants/{slug}/webhooks/secret/rotate","by":"key","body":"application/json"},
    test: {"method":"POST","path":"/v1/tenants/{slug}/webhooks/test","by":"key","body":"application/json"},
  },
  deliveries: {
    list: {"method":"GET","path":"/v1/tenants/{slug}/webhooks","by":"key","repeatable":true,"paging":{"by":"offset","items":"deliveries"}},
    retryAll: {"method":"POST","path":"/v1/tenants/{slug}/webhooks/retry","by":"key","body":"application/json"},
    get: {"method":"GET","path":"/v1/tenants/{slug}/webhooks/{delivery_id}","by":"key","repeatable":true},
    retry: {"method":"POST","path":"/v1/tenants/{slug}/webhooks/{delivery_id}/retry","by":"key"},
  },
};
