// @ts-nocheck
// Made by `npm run generate` from the OpenAPI document: do not edit.

export type ClientOptions = {
    baseUrl: `${string}://${string}` | (string & {});
};

export type RegisterRequest = {
    email: string;
    password: string;
    first_name: string;
    last_name: string;
};

export type UserData = {
    user: User;
};

export type UserResult = {
    /**
     * true
     */
    success: boolean;
    data: UserData;
    message: string;
};

export type LoginRequest = {
    email: string;
    password: string;
    /**
     * Six digits of the second factor, or a recovery code. Needed only if the user has a second factor.
     */
    totp_code?: string | null;
};

export type SessionData = {
    /**
     * JWT, valid for one hour: `Authorization: Bearer <token>`.
     */
    token: string;
    expires_at: string;
    /**
     * Valid once, within 30 days.
     */
    refresh_token: string;
    user: User;
};

export type SessionResult = {
    /**
     * true
     */
    success: boolean;
    data: SessionData;
    message: string;
};

export type RefreshRequest = {
    /**
     * From the last login or refresh.
     */
    refresh_token: string;
};

export type LogoutRequest = {
    /**
     * From the last login or refresh.
     */
    refresh_token: string;
};

export type DoneResult = {
    /**
     * true
     */
    success: boolean;
    data: {
        [key: string]: unknown;
    };
    message: string;
};

export type GetUserData = {
    user: User;
};

export type GetUserResult = {
    /**
     * true
     */
    success: boolean;
    data: GetUserData;
};

export type VerifyEmailRequest = {
    /**
     * From the link of the mail. Works once.
     */
    token: string;
};

export type ChangePasswordRequest = {
    /**
     * The password that is valid now.
     */
    current: string;
    password: string;
};

export type ForgotPasswordRequest = {
    email: string;
};

export type ResetPasswordRequest = {
    /**
     * From the link of the mail. Works once.
     */
    token: string;
    password: string;
};

export type StartTotpRequest = {
    /**
     * The password that is valid now.
     */
    password: string;
};

export type StartTotpData = {
    /**
     * Base32. Shown only now.
     */
    secret: string;
    otpauth_url: string;
};

export type StartTotpResult = {
    /**
     * true
     */
    success: boolean;
    data: StartTotpData;
};

export type DeleteTotpRequest = {
    /**
     * The password that is valid now.
     */
    password: string;
    /**
     * Six digits, or a recovery code.
     */
    code: string;
};

export type DeleteTotpData = {
    id: string;
    deleted: boolean;
};

export type DeleteTotpResult = {
    /**
     * true
     */
    success: boolean;
    data: DeleteTotpData;
};

export type ConfirmTotpRequest = {
    /**
     * Six digits.
     */
    code: string;
};

export type ConfirmTotpData = {
    /**
     * Shown only now.
     */
    recovery_codes: [
        string,
        string,
        string,
        string,
        string,
        string,
        string,
        string,
        string,
        string
    ];
};

export type ConfirmTotpResult = {
    /**
     * true
     */
    success: boolean;
    data: ConfirmTotpData;
    message: string;
};

export type ExchangeOidcCodeRequest = {
    /**
     * From the address to which the callback redirected.
     */
    code: string;
    /**
     * Six digits of the second factor, or a recovery code. Needed only if the user has a second factor.
     */
    totp_code?: string | null;
};

export type LinkOidcRequest = {
    /**
     * From the address to which the callback redirected.
     */
    code: string;
};

export type LinkOidcData = {
    user: User;
};

export type LinkOidcResult = {
    /**
     * true
     */
    success: boolean;
    data: LinkOidcData;
    message: string;
};

export type CreateTenantRequest = {
    name: string;
    /**
     * Lower case letters, digits and single hyphens, 3 to 63 characters.
     */
    slug: string;
    business_type: BusinessType;
    description?: string | null;
};

export type TenantData = {
    tenant: Tenant;
};

export type TenantResult = {
    /**
     * true
     */
    success: boolean;
    data: TenantData;
    message: string;
};

export type ListTenantsData = {
    tenants: Array<Tenant>;
    pagination: Pagination;
};

export type ListTenantsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListTenantsData;
};

export type UpdateTenantRequest = {
    require_totp: boolean;
};

export type ListMembersData = {
    members: Array<Member>;
    pagination: Pagination;
};

export type ListMembersResult = {
    /**
     * true
     */
    success: boolean;
    data: ListMembersData;
};

export type UpdateMemberRequest = {
    role: Role;
};

export type UpdateMemberData = {
    member: Member;
};

export type UpdateMemberResult = {
    /**
     * true
     */
    success: boolean;
    data: UpdateMemberData;
};

export type MemberRemovedData = {
    id: string;
    deleted: boolean;
};

export type MemberRemovedResult = {
    /**
     * true
     */
    success: boolean;
    data: MemberRemovedData;
};

export type CreateInvitationRequest = {
    email: string;
    role: Role;
};

export type CreateInvitationData = {
    invitation: Invitation;
};

export type CreateInvitationResult = {
    /**
     * true
     */
    success: boolean;
    data: CreateInvitationData;
    message: string;
};

export type ListInvitationsData = {
    invitations: Array<Invitation>;
    pagination: Pagination;
};

export type ListInvitationsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListInvitationsData;
};

export type InvitationRevokedData = {
    id: string;
    deleted: boolean;
};

export type InvitationRevokedResult = {
    /**
     * true
     */
    success: boolean;
    data: InvitationRevokedData;
};

export type AcceptInvitationRequest = {
    /**
     * From the link of the mail. Works once.
     */
    token: string;
};

export type AcceptInvitationData = {
    tenant: Tenant;
    member: Member;
};

export type AcceptInvitationResult = {
    /**
     * true
     */
    success: boolean;
    data: AcceptInvitationData;
    message: string;
};

export type CreateApiKeyRequest = {
    name: string;
    /**
     * Repeated scopes count once. `reconciliations:manage` has no routes yet.
     */
    scopes: Array<Scope>;
    description?: string | null;
    /**
     * In the future; never by default.
     */
    expires_at?: string | null;
};

export type CreateApiKeyData = {
    api_key: ApiKeyWithSecret;
};

export type CreateApiKeyResult = {
    /**
     * true
     */
    success: boolean;
    data: CreateApiKeyData;
    message: string;
};

export type ListApiKeysData = {
    api_keys: Array<ApiKey>;
    pagination: Pagination;
};

export type ListApiKeysResult = {
    /**
     * true
     */
    success: boolean;
    data: ListApiKeysData;
};

export type RevokeApiKeyData = {
    id: string;
    deleted: boolean;
};

export type RevokeApiKeyResult = {
    /**
     * true
     */
    success: boolean;
    data: RevokeApiKeyData;
};

export type RotateApiKeyRequest = {
    /**
     * How long the old key stays valid.
     */
    overlap_seconds?: number | null;
};

export type RotateApiKeyData = {
    api_key: ApiKeyWithSecret;
    previous: ApiKey;
};

export type RotateApiKeyResult = {
    /**
     * true
     */
    success: boolean;
    data: RotateApiKeyData;
    message: string;
};

export type CreateAccessRequest = {
    /**
     * All scopes of the role by default.
     */
    scopes?: Array<Scope> | null;
};

export type CreateAccessData = {
    access: AccessKey;
};

export type CreateAccessResult = {
    /**
     * true
     */
    success: boolean;
    data: CreateAccessData;
};

export type AuditData = {
    audit: Array<AuditEntry>;
    pagination: Pagination;
};

export type AuditResult = {
    /**
     * true
     */
    success: boolean;
    data: AuditData;
};

export type SetUpChartRequest = {
    business_type: BusinessType;
};

export type ChartData = {
    business_type: BusinessType;
    accounts: Array<Account>;
};

export type ChartResult = {
    /**
     * true
     */
    success: boolean;
    data: ChartData;
};

export type GetHierarchyData = {
    accounts: Array<AccountNode>;
};

export type GetHierarchyResult = {
    /**
     * true
     */
    success: boolean;
    data: GetHierarchyData;
};

export type AccountLimitInput = {
    currency: Currency;
    /**
     * A decimal string, signed, in the account’s normal direction.
     */
    min_available?: string | null;
    /**
     * A decimal string, signed, in the account’s normal direction.
     */
    max_balance?: string | null;
};

export type CreateAccountRequest = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    name: string;
    type: AccountType;
    /**
     * Follows from the type by default; the other side makes a contra account.
     */
    normal_balance?: Side | null;
    /**
     * All four by default.
     */
    currency?: Currency | null;
    /**
     * A group of the same type.
     */
    parent_code?: string | null;
    /**
     * A group takes no postings.
     */
    is_group?: boolean | null;
    description?: string | null;
    /**
     * false: no posting or hold may leave `available` below zero.
     */
    allow_negative?: boolean | null;
    /**
     * At most one per currency. `min_available` is the floor of `available` (`-500.00`: a credit line), `max_balance` the ceiling of the balance. A limit may be broken already when it is set: it refuses what makes that worse.
     */
    limits?: Array<AccountLimitInput> | null;
    /**
     * Sides on which the account takes no entries (`account_blocked`).
     */
    blocked?: Array<Side> | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
};

export type AccountData = {
    account: Account;
};

export type AccountResult = {
    /**
     * true
     */
    success: boolean;
    data: AccountData;
};

export type ListAccountsData = {
    accounts: Array<Account>;
    pagination: Pagination;
};

export type ListAccountsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListAccountsData;
};

export type CreateAccountsRequest = {
    /**
     * Each code once. Parents may be among them, in any order.
     */
    accounts: Array<CreateAccountRequest>;
    /**
     * `error`: a code that exists rejects the batch. `skip`: such an account stays as it is, whatever the batch says of it.
     */
    on_existing?: OnExisting | null;
};

export type AccountsData = {
    created: number;
    /**
     * Accounts that existed.
     */
    skipped: number;
    accounts: Array<Account>;
};

export type AccountsResult = {
    /**
     * true
     */
    success: boolean;
    data: AccountsData;
};

export type UpdateAccountRequest = {
    name?: string | null;
    /**
     * Another group of the same type that is not below the account.
     */
    parent_code?: string | null;
    description?: string | null;
    allow_negative?: boolean | null;
    /**
     * An account with a balance cannot be closed.
     */
    status?: AccountStatus | null;
    /**
     * At most one per currency. `min_available` is the floor of `available` (`-500.00`: a credit line), `max_balance` the ceiling of the balance. A limit may be broken already when it is set: it refuses what makes that worse.
     */
    limits?: Array<AccountLimitInput> | null;
    /**
     * Sides on which the account takes no entries (`account_blocked`).
     */
    blocked?: Array<Side> | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * The version that you have read; any other is rejected.
     */
    version?: number | null;
};

export type LimitWindowInput = {
    /**
     * The last so many seconds, in steps of a sixtieth.
     */
    rolling_seconds?: number | null;
    /**
     * A week begins on Monday.
     */
    calendar?: Calendar | null;
    /**
     * Of the calendar: an IANA name.
     */
    time_zone?: string | null;
};

export type CreateLimitRequest = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * Of a group: `each` account below it by itself, or the `sum` of all together.
     */
    applies?: LimitSubject | null;
    currency: Currency;
    side: Side;
    /**
     * Either `rolling_seconds`, or `calendar` and `time_zone`.
     */
    window: LimitWindowInput;
    /**
     * Inclusive.
     */
    max_amount?: string | null;
    /**
     * Transactions and holds, inclusive.
     */
    max_count?: number | null;
    /**
     * A paused limit goes on counting, but refuses nothing.
     */
    status?: LimitStatus | null;
    name?: string | null;
};

export type LimitData = {
    limit: VelocityLimit;
};

export type LimitResult = {
    /**
     * true
     */
    success: boolean;
    data: LimitData;
};

export type ListLimitsData = {
    limits: Array<VelocityLimit>;
    pagination: Pagination;
};

export type ListLimitsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListLimitsData;
};

export type UpdateLimitRequest = {
    /**
     * Inclusive.
     */
    max_amount?: string | null;
    /**
     * Transactions and holds, inclusive.
     */
    max_count?: number | null;
    /**
     * A paused limit goes on counting, but refuses nothing.
     */
    status?: LimitStatus | null;
    /**
     * Empty: removed.
     */
    name?: string | null;
    /**
     * The version that you have read; any other is rejected.
     */
    version?: number | null;
};

export type LimitDeletedData = {
    id: string;
    deleted: boolean;
};

export type LimitDeletedResult = {
    /**
     * true
     */
    success: boolean;
    data: LimitDeletedData;
};

export type GetLimitUsageData = {
    usage: LimitUsage;
};

export type GetLimitUsageResult = {
    /**
     * true
     */
    success: boolean;
    data: GetLimitUsageData;
};

export type AmountBounds = {
    /**
     * A decimal string, signed, in the account’s normal direction.
     */
    gte?: string | null;
    /**
     * A decimal string, signed, in the account’s normal direction.
     */
    lte?: string | null;
    /**
     * A decimal string, signed, in the account’s normal direction.
     */
    eq?: string | null;
};

export type AccountCondition = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    currency: Currency;
    /**
     * The balance’s `version` before the request.
     */
    version?: number | null;
    /**
     * Compared after the whole request.
     */
    balance?: AmountBounds | null;
    available?: AmountBounds | null;
};

export type PersonalInput = {
    /**
     * Your own name of the person, for example a customer number. It is kept in Unicode form NFC.
     */
    subject: string;
    /**
     * At most 4 KiB as JSON.
     */
    data: Metadata;
};

export type PostSingleRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * A decimal string greater than zero with at most 13 digits before and 2 after the point.
     */
    amount: string;
    side: Side;
    currency: Currency;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type TransactionOrDryRunData = {
    transaction: Transaction | TriedTransaction;
};

export type TransactionOrDryRunResult = {
    /**
     * true
     */
    success: boolean;
    data: TransactionOrDryRunData;
    /**
     * Only for a dry run: true.
     */
    dry_run?: boolean;
};

export type TransactionData = {
    transaction: Transaction;
};

export type TransactionResult = {
    /**
     * true
     */
    success: boolean;
    data: TransactionData;
};

export type ListTransactionsData = {
    transactions: Array<Transaction>;
    pagination: Pagination;
};

export type ListTransactionsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListTransactionsData;
};

export type EntryCondition = {
    /**
     * The balance’s `version` before the request.
     */
    version?: number | null;
    /**
     * Compared after the whole request.
     */
    balance?: AmountBounds | null;
    available?: AmountBounds | null;
};

export type EntryInput = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * A decimal string greater than zero with at most 13 digits before and 2 after the point.
     */
    amount: string;
    side: Side;
    currency: Currency;
    /**
     * What must hold for this account in this currency, or nothing is posted (`condition_failed`). At least one comparison.
     */
    require?: EntryCondition | null;
};

export type PostDoubleRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Debits and credits must be equal in each currency. An account may appear more than once.
     */
    entries: Array<EntryInput>;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type ExchangeLeg = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    currency: Currency;
    /**
     * A decimal string greater than zero with at most 13 digits before and 2 after the point.
     */
    amount?: string | null;
};

export type ExchangeRateInput = {
    base: Currency;
    quote: Currency;
    /**
     * A decimal string greater than zero with at most 12 digits before and after the point.
     */
    value: string;
};

export type ExchangeFee = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    currency: Currency;
    /**
     * A decimal string greater than zero with at most 13 digits before and 2 after the point.
     */
    amount: string;
};

export type ExchangeSpread = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * A decimal string greater than zero with at most 12 digits before and after the point.
     */
    reference_rate: string;
};

export type PostExchangeRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Wallet to wallet: the one that pays. Bank to bank: the one that receives.
     */
    debit: ExchangeLeg;
    /**
     * In another currency.
     */
    credit: ExchangeLeg;
    /**
     * 1 base = value quote. Left out where both legs have an amount.
     */
    rate?: ExchangeRateInput | null;
    /**
     * Of the computed amount.
     */
    rounding?: Rounding | null;
    /**
     * Credited out of the leg of their currency: the debit’s before converting, the credit’s after.
     */
    fees?: Array<ExchangeFee> | null;
    /**
     * Where the difference to a reference rate of the same base and quote is credited; a loss is debited.
     */
    spread?: ExchangeSpread | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type ReverseTransactionRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Of a transaction of two entries. With neither this nor `entries`: all that is left.
     */
    amount?: string | null;
    /**
     * As they are to be posted: mirrors of the transaction’s entries with amounts of their own, equal in each currency.
     */
    entries?: Array<EntryInput> | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, as for postings; `original`: when the transaction counts. Not before that. Left out: now, or when the transaction counts if that is later.
     */
    effective_at?: string | null;
};

export type RedactTransactionRequest = {
    /**
     * `description`, `reference` or `metadata.<key>`, the key being one at the top level.
     */
    fields: Array<string>;
    reason: string;
};

export type SubmitBatchRequest = {
    /**
     * true: all items or none, consecutive in the log.
     */
    atomic?: boolean | null;
    /**
     * At most 1,000 with 2,000 entries in all. Every item but `void` needs an `idempotency_key`.
     */
    items: Array<BatchSingle | BatchDouble | BatchExchange | BatchHold | BatchCapture | BatchVoid | BatchReverse>;
};

export type BatchOrDryRunData = {
    /**
     * One for each item, in their order.
     */
    results: Array<BatchItemResult>;
    /**
     * Items done now, also holds and voids.
     */
    posted: number;
    /**
     * Items that an earlier request had done.
     */
    replayed: number;
    failed: number;
};

export type BatchOrDryRunResult = {
    /**
     * true
     */
    success: boolean;
    data: BatchOrDryRunData;
    /**
     * Only for a dry run: true.
     */
    dry_run?: boolean;
};

export type BatchData = {
    /**
     * One for each item, in their order.
     */
    results: Array<BatchItemResult>;
    /**
     * Items done now, also holds and voids.
     */
    posted: number;
    /**
     * Items that an earlier request had done.
     */
    replayed: number;
    failed: number;
};

export type BatchResult = {
    /**
     * true
     */
    success: boolean;
    data: BatchData;
};

export type EraseSubjectRequest = {
    /**
     * Your own name of the person, for example a customer number. It is kept in Unicode form NFC.
     */
    subject: string;
    /**
     * Stays in the log: write no personal data into it.
     */
    reason?: string | null;
};

export type ErasedSubjectData = {
    subject_id: string;
    erased_at: string;
};

export type ErasedSubjectResult = {
    /**
     * true
     */
    success: boolean;
    data: ErasedSubjectData;
};

export type ListFiltersData = {
    filters: Array<Filter>;
};

export type ListFiltersResult = {
    /**
     * true
     */
    success: boolean;
    data: ListFiltersData;
};

export type PutFilterRequest = {
    /**
     * Query text of `GET …/transactions`, without `filter`, `limit` and `cursor`.
     */
    query: string;
};

export type PutFilterData = {
    filter: Filter;
};

export type PutFilterResult = {
    /**
     * true
     */
    success: boolean;
    data: PutFilterData;
};

export type DeleteFilterData = {
    name: string;
    deleted: boolean;
};

export type DeleteFilterResult = {
    /**
     * true
     */
    success: boolean;
    data: DeleteFilterData;
};

export type VolumePoint = {
    date: string;
    count: number;
    debits: string;
};

export type GetVolumeData = {
    points: Array<VolumePoint>;
};

export type GetVolumeResult = {
    /**
     * true
     */
    success: boolean;
    data: GetVolumeData;
};

export type CreateHoldRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Debits and credits must be equal in each currency. An account may appear more than once.
     */
    entries: Array<EntryInput>;
    /**
     * From then on it can’t be captured, and what remains is released. Left out: never.
     */
    expires_at?: string | null;
    /**
     * The same in seconds from now, in place of `expires_at`. For retries that compute the time anew.
     */
    expires_in?: number | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
};

export type HoldOrDryRunData = {
    hold: Hold | TriedHold;
};

export type HoldOrDryRunResult = {
    /**
     * true
     */
    success: boolean;
    data: HoldOrDryRunData;
    /**
     * Only for a dry run: true.
     */
    dry_run?: boolean;
};

export type HoldData = {
    hold: Hold;
};

export type HoldResult = {
    /**
     * true
     */
    success: boolean;
    data: HoldData;
};

export type ListHoldsData = {
    holds: Array<Hold>;
    pagination: Pagination;
};

export type ListHoldsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListHoldsData;
};

export type CaptureHoldRequest = {
    /**
     * Printable characters without a blank at either end. Kept for ever: the same key with the same request posts once. May be sent as the header `Idempotency-Key` instead.
     */
    idempotency_key?: string | null;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Of a hold of two entries. With neither this nor `entries`: all that remains.
     */
    amount?: string | null;
    /**
     * Entries of the hold by account, side and currency, with amounts of their own, equal in each currency.
     */
    entries?: Array<EntryInput> | null;
    /**
     * true: what is not captured is released. false: it stays held.
     */
    final?: boolean | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
};

export type CaptureOrDryRunData = {
    transaction: Transaction | TriedTransaction;
    hold: Hold;
};

export type CaptureOrDryRunResult = {
    /**
     * true
     */
    success: boolean;
    data: CaptureOrDryRunData;
    /**
     * Only for a dry run: true.
     */
    dry_run?: boolean;
};

export type CaptureData = {
    transaction: Transaction;
    hold: Hold;
};

export type CaptureResult = {
    /**
     * true
     */
    success: boolean;
    data: CaptureData;
};

export type VoidHoldRequest = {
    description?: string | null;
};

export type VoidData = {
    hold: Hold;
};

export type VoidResult = {
    /**
     * true
     */
    success: boolean;
    data: VoidData;
    /**
     * Only for a dry run: true.
     */
    dry_run?: boolean;
};

export type GetBalanceData = {
    balance: Balance;
};

export type GetBalanceResult = {
    /**
     * true
     */
    success: boolean;
    data: GetBalanceData;
};

export type ListDailyBalancesData = {
    days: Array<DailyBalance>;
};

export type ListDailyBalancesResult = {
    /**
     * true
     */
    success: boolean;
    data: ListDailyBalancesData;
};

export type ListBalanceHistoryData = {
    history: Array<BalanceChange>;
    pagination: Pagination;
};

export type ListBalanceHistoryResult = {
    /**
     * true
     */
    success: boolean;
    data: ListBalanceHistoryData;
};

export type TrialBalanceData = {
    report: AccountsReport;
};

export type TrialBalanceResult = {
    /**
     * true
     */
    success: boolean;
    data: TrialBalanceData;
};

export type StartTrialBalanceRequest = {
    /**
     * Balances at the end of this day, or at this time; absent: now.
     */
    as_of?: string | null;
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * `exclude` leaves out closing transactions of year ends and their reversals.
     */
    closing?: ClosingChoice | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Levels of the chart that are shown; deeper ones are folded into their group.
     */
    depth?: number | null;
    /**
     * Shows accounts without any amount as well.
     */
    zero?: boolean | null;
    /**
     * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
     */
    columns?: ReportColumns | null;
    /**
     * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
     */
    compare?: ReportComparison | null;
    /**
     * How many periods or years are compared.
     */
    count?: number | null;
    /**
     * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
     */
    group_by?: string | null;
};

export type JobData = {
    job: Job;
};

export type JobResult = {
    /**
     * true
     */
    success: boolean;
    data: JobData;
};

export type BalanceSheetData = {
    report: AccountsReport;
};

export type BalanceSheetResult = {
    /**
     * true
     */
    success: boolean;
    data: BalanceSheetData;
};

export type StartBalanceSheetRequest = {
    /**
     * Balances at the end of this day, or at this time; absent: now.
     */
    as_of?: string | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Levels of the chart that are shown; deeper ones are folded into their group.
     */
    depth?: number | null;
    /**
     * Shows accounts without any amount as well.
     */
    zero?: boolean | null;
    /**
     * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
     */
    columns?: ReportColumns | null;
    /**
     * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
     */
    compare?: ReportComparison | null;
    /**
     * How many periods or years are compared.
     */
    count?: number | null;
    /**
     * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
     */
    group_by?: string | null;
};

export type IncomeStatementData = {
    report: AccountsReport;
};

export type IncomeStatementResult = {
    /**
     * true
     */
    success: boolean;
    data: IncomeStatementData;
};

export type StartIncomeStatementRequest = {
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Levels of the chart that are shown; deeper ones are folded into their group.
     */
    depth?: number | null;
    /**
     * Shows accounts without any amount as well.
     */
    zero?: boolean | null;
    /**
     * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
     */
    columns?: ReportColumns | null;
    /**
     * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
     */
    compare?: ReportComparison | null;
    /**
     * How many periods or years are compared.
     */
    count?: number | null;
    /**
     * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
     */
    group_by?: string | null;
};

export type CashFlowData = {
    report: AccountsReport;
};

export type CashFlowResult = {
    /**
     * true
     */
    success: boolean;
    data: CashFlowData;
};

export type StartCashFlowRequest = {
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Levels of the chart that are shown; deeper ones are folded into their group.
     */
    depth?: number | null;
    /**
     * Shows accounts without any amount as well.
     */
    zero?: boolean | null;
    /**
     * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
     */
    columns?: ReportColumns | null;
    /**
     * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
     */
    compare?: ReportComparison | null;
    /**
     * How many periods or years are compared.
     */
    count?: number | null;
    /**
     * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
     */
    group_by?: string | null;
};

export type AccountStatementData = {
    report: AccountStatementReport;
    pagination: Pagination;
};

export type AccountStatementResult = {
    /**
     * true
     */
    success: boolean;
    data: AccountStatementData;
};

export type StartAccountStatementRequest = {
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * By the time at which postings count, or at which they were recorded; `from` and `to` are on the same time.
     */
    order?: EntryOrder | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Lines on a page of JSON.
     */
    limit?: number | null;
    /**
     * `next_cursor` of the previous page, with the same parameters.
     */
    cursor?: string | null;
};

export type GeneralLedgerData = {
    report: GeneralLedgerReport;
    pagination: Pagination;
};

export type GeneralLedgerResult = {
    /**
     * true
     */
    success: boolean;
    data: GeneralLedgerData;
};

export type StartGeneralLedgerRequest = {
    /**
     * Accounts, of a group all below it; absent: all.
     */
    account_code?: Array<string> | null;
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Lines on a page of JSON.
     */
    limit?: number | null;
    /**
     * `next_cursor` of the previous page, with the same parameters.
     */
    cursor?: string | null;
};

export type JournalData = {
    report: JournalReport;
    pagination: Pagination;
};

export type JournalResult = {
    /**
     * true
     */
    success: boolean;
    data: JournalData;
};

export type StartJournalRequest = {
    /**
     * The first day or time of the period; absent, or before 1970: from the beginning.
     */
    from?: string | null;
    /**
     * The last day or time of the period; absent: now.
     */
    to?: string | null;
    /**
     * By the time at which postings count, or at which they were recorded; `from` and `to` are on the same time.
     */
    order?: EntryOrder | null;
    /**
     * Absent: each currency by itself, never added up.
     */
    currency?: Currency | null;
    /**
     * Only what was recorded by then; absent: all.
     */
    known_at?: string | null;
    /**
     * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
     */
    known_sequence?: number | null;
    /**
     * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
     */
    format?: ReportFormat | null;
    /**
     * Lines on a page of JSON.
     */
    limit?: number | null;
    /**
     * `next_cursor` of the previous page, with the same parameters.
     */
    cursor?: string | null;
};

export type BooksData = {
    books: Books;
};

export type BooksResult = {
    /**
     * true
     */
    success: boolean;
    data: BooksData;
};

export type UpdateBooksRequest = {
    /**
     * An IANA name. It can’t change while a period is closed (tag `immutable`).
     */
    timezone?: string | null;
    /**
     * Last day of the fiscal year, `MM-DD`; `02-29` is the last day of February.
     */
    fiscal_year_end?: string | null;
    /**
     * An equity account, no group.
     */
    retained_earnings_code?: string | null;
    /**
     * A posting into a closed period: `refuse` it, or let it count from the first open millisecond on.
     */
    late_entries?: LateEntries | null;
    /**
     * How many days ahead a posting may count.
     */
    future_days?: number | null;
    /**
     * Codes of accounts and groups that the cash flow calls cash.
     */
    cash_accounts?: Array<string> | null;
    /**
     * Keys of transactions’ `metadata` by which lists can be filtered. Older transactions are indexed in the background.
     */
    indexed_metadata?: Array<string> | null;
    /**
     * The version that you have read; any other is rejected.
     */
    version?: number | null;
};

export type ListJobsData = {
    jobs: Array<Job>;
    pagination: Pagination;
};

export type ListJobsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListJobsData;
};

export type DeleteJobData = {
    id: string;
    deleted: boolean;
};

export type DeleteJobResult = {
    /**
     * true
     */
    success: boolean;
    data: DeleteJobData;
};

export type ClosePeriodRequest = {
    /**
     * The last day to be closed, in the books’ time zone. It must be over.
     */
    through: string;
    /**
     * For ever: nobody can reopen it.
     */
    final?: boolean | null;
    /**
     * Brings revenue and expense to zero against `retained_earnings_code`, in the same commit.
     */
    year_end?: boolean | null;
    reason?: string | null;
};

export type PeriodData = {
    period: Period;
};

export type PeriodResult = {
    /**
     * true
     */
    success: boolean;
    data: PeriodData;
};

export type ReopenPeriodRequest = {
    /**
     * The last day that stays closed; null: none.
     */
    through: string | null;
    reason: string;
};

export type ListPeriodsData = {
    periods: Array<Period>;
    pagination: Pagination;
};

export type ListPeriodsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListPeriodsData;
};

export type EventPagination = {
    limit: number;
    has_more: boolean;
};

export type ListEventsData = {
    events: Array<Event>;
    pagination: EventPagination;
};

export type ListEventsResult = {
    /**
     * true
     */
    success: boolean;
    data: ListEventsData;
};

export type ProofData = {
    proof: Proof;
};

export type ProofResult = {
    /**
     * true
     */
    success: boolean;
    data: ProofData;
};

export type GetConsistencyData = {
    consistency: Consistency;
};

export type GetConsistencyResult = {
    /**
     * true
     */
    success: boolean;
    data: GetConsistencyData;
};

export type ListCheckpointKeysData = {
    keys: Array<CheckpointKey>;
};

export type ListCheckpointKeysResult = {
    /**
     * true
     */
    success: boolean;
    data: ListCheckpointKeysData;
};

export type WebhookHeaderInput = {
    /**
     * Each name once, whatever its case.
     */
    name: string;
    /**
     * Printable ASCII characters without a blank at either end.
     */
    value: string;
};

export type ConfigureWebhookRequest = {
    /**
     * An https address. It must not be, or resolve to, a private, loopback, link-local or otherwise special address. Credentials go into `headers`, not into the address.
     */
    url: string;
    /**
     * Event types to deliver. Repeated types count once.
     */
    events: Array<WebhookEventType>;
    /**
     * 16 to 255 printable characters. Replaces the old secret at once, without an overlap.
     */
    secret?: string | null;
    enabled?: boolean | null;
    /**
     * Sent with every delivery, for receivers that expect a token. They replace all headers before; their values are never shown again. Not allowed are the headers that a delivery has already, `Host`, `Content-Length`, `Expect`, and those of the connection.
     */
    headers?: Array<WebhookHeaderInput> | null;
};

export type WebhookConfigData = {
    webhook_config: WebhookConfigWithSecret;
};

export type WebhookConfigResult = {
    /**
     * true
     */
    success: boolean;
    data: WebhookConfigData;
    message: string;
};

export type UpdateWebhooksRequest = {
    /**
     * An https address. It must not be, or resolve to, a private, loopback, link-local or otherwise special address. Credentials go into `headers`, not into the address.
     */
    url?: string | null;
    /**
     * Event types to deliver. Repeated types count once.
     */
    events?: Array<WebhookEventType> | null;
    /**
     * 16 to 255 printable characters. Replaces the old secret at once, without an overlap.
     */
    secret?: string | null;
    enabled?: boolean | null;
    /**
     * Sent with every delivery, for receivers that expect a token. They replace all headers before; their values are never shown again. Not allowed are the headers that a delivery has already, `Host`, `Content-Length`, `Expect`, and those of the connection.
     */
    headers?: Array<WebhookHeaderInput> | null;
};

export type WebhookDeletedData = {
    deleted: boolean;
};

export type WebhookDeletedResult = {
    /**
     * true
     */
    success: boolean;
    data: WebhookDeletedData;
};

export type OffsetPagination = {
    total: number;
    limit: number;
    offset: number;
    has_more: boolean;
};

export type ListDeliveriesData = {
    webhook_config: WebhookConfig | null;
    deliveries: Array<WebhookDelivery>;
    pagination: OffsetPagination;
};

export type ListDeliveriesResult = {
    /**
     * true
     */
    success: boolean;
    data: ListDeliveriesData;
};

export type GetWebhookData = {
    webhook_config: WebhookConfig;
};

export type GetWebhookResult = {
    /**
     * true
     */
    success: boolean;
    data: GetWebhookData;
};

export type UpdateWebhookRequest = {
    /**
     * An https address. It must not be, or resolve to, a private, loopback, link-local or otherwise special address. Credentials go into `headers`, not into the address.
     */
    url?: string | null;
    /**
     * Event types to deliver. Repeated types count once.
     */
    events?: Array<WebhookEventType> | null;
    /**
     * 16 to 255 printable characters. Replaces the old secret at once, without an overlap.
     */
    secret?: string | null;
    enabled?: boolean | null;
    /**
     * Sent with every delivery, for receivers that expect a token. They replace all headers before; their values are never shown again. Not allowed are the headers that a delivery has already, `Host`, `Content-Length`, `Expect`, and those of the connection.
     */
    headers?: Array<WebhookHeaderInput> | null;
};

export type RotateWebhookSecretRequest = {
    /**
     * How long deliveries are also signed with the old secret.
     */
    overlap_seconds?: number | null;
};

export type TestWebhookRequest = {
    /**
     * Default `test.webhook`.
     */
    event_type?: WebhookEventType | null;
};

export type TestWebhookData = {
    delivery_id: string;
    status: 'delivered';
    status_code: number;
    response_time_ms: number;
    test_payload: TestEvent;
};

export type TestWebhookResult = {
    /**
     * true
     */
    success: boolean;
    data: TestWebhookData;
};

export type RetryDeliveriesRequest = {
    event_type?: WebhookEventType | null;
    /**
     * From 00:00 UTC of this day.
     */
    start_date?: string | null;
    /**
     * Up to, not including, 00:00 UTC of this day.
     */
    end_date?: string | null;
};

export type RetryDeliveriesData = {
    /**
     * Deliveries queued now.
     */
    queued: number;
    /**
     * Failed deliveries that match and were not queued.
     */
    remaining: number;
};

export type RetryDeliveriesResult = {
    /**
     * true
     */
    success: boolean;
    data: RetryDeliveriesData;
};

export type GetDeliveryData = {
    delivery: WebhookDeliveryDetail;
};

export type GetDeliveryResult = {
    /**
     * true
     */
    success: boolean;
    data: GetDeliveryData;
};

export type RetryDeliveryData = {
    message: string;
    delivery_id: string;
    attempts: number;
    /**
     * When the attempt is due.
     */
    next_retry_at: string;
};

export type RetryDeliveryResult = {
    /**
     * true
     */
    success: boolean;
    data: RetryDeliveryData;
};

export type GetHealthResult = {
    status: 'ok';
    version: string;
};

export type ReadinessResult = {
    status: 'ok' | 'degraded' | 'unavailable';
    dependencies: {
        [key: string]: string;
    };
};

export type GetKeySetResult = {
    keys: Array<{
        [key: string]: unknown;
    }>;
};

export type Metadata = {
    [key: string]: unknown;
};

export type Problem = {
    /**
     * false
     */
    success: boolean;
    /**
     * What went wrong, in words.
     */
    error: string;
    /**
     * What went wrong, for programs.
     */
    code: ErrorCode;
    request_id: string;
    /**
     * The first wrong field.
     */
    details?: ProblemDetails;
    /**
     * All wrong fields, at most 20.
     */
    errors?: Array<FieldError>;
    /**
     * Of a failed test delivery.
     */
    delivery_id?: string;
    /**
     * Its receiver’s status; null: no answer.
     */
    status_code?: number | null;
    /**
     * Why it failed.
     */
    error_class?: DeliveryErrorClass;
};

export type FieldError = {
    /**
     * For example `entries[1].amount`.
     */
    field: string;
    /**
     * `required`, `type`, `max`, …, or the code of a business rule.
     */
    tag: string;
    /**
     * What was sent; `""` if nothing was, or if it is a secret; `…` for a very large object or array.
     */
    value: unknown;
    message: string;
};

export type ProblemDetails = {
    /**
     * For example `entries[1].amount`.
     */
    field: string;
    /**
     * `required`, `type`, `max`, …, or the code of a business rule.
     */
    tag: string;
    /**
     * What was sent; `""` if nothing was, or if it is a secret; `…` for a very large object or array.
     */
    value: unknown;
    /**
     * `unbalanced`: sum of the debits in the currency that `value` names.
     */
    debits?: string;
    /**
     * `unbalanced`: sum of its credits.
     */
    credits?: string;
    /**
     * `unbalanced`: debits − credits.
     */
    difference?: string;
    /**
     * `idempotency_key_reused`: the transaction of the first request with this key.
     */
    transaction_id?: string;
    /**
     * The same of a hold.
     */
    hold_id?: string;
    /**
     * `idempotency_key_reused`: the fields in which the requests differ.
     */
    fields?: Array<string>;
};

export type Pagination = {
    limit: number;
    next_cursor: string | null;
    has_more: boolean;
};

export type User = {
    id: string;
    email: string;
    first_name: string;
    last_name: string;
    status: 'active';
    email_verified: boolean;
    /**
     * Whether a second factor is on.
     */
    totp_enabled: boolean;
    created_at: string;
};

export type Tenant = {
    id: string;
    name: string;
    slug: string;
    business_type: BusinessType;
    description: string | null;
    status: 'active' | 'suspended' | 'closed';
    /**
     * Role of the caller.
     */
    role: Role;
    /**
     * Whether members need a second factor.
     */
    require_totp: boolean;
    created_at: string;
    /**
     * When a closed tenant is deleted.
     */
    delete_at: string | null;
};

export type ApiKey = {
    id: string;
    name: string;
    scopes: Array<Scope>;
    description: string | null;
    /**
     * The last four characters of the key.
     */
    last4: string;
    created_at: string;
    expires_at: string | null;
    revoked_at: string | null;
};

export type ApiKeyWithSecret = {
    id: string;
    name: string;
    scopes: Array<Scope>;
    description: string | null;
    /**
     * The last four characters of the key.
     */
    last4: string;
    created_at: string;
    expires_at: string | null;
    revoked_at: string | null;
    /**
     * The key itself, shown only once.
     */
    key: string;
};

export type AccessKey = {
    /**
     * The key itself, shown only once.
     */
    key: string;
    scopes: Array<Scope>;
    expires_at: string;
};

export type AccountLimit = {
    currency: Currency;
    /**
     * Decimal string with two fraction digits.
     */
    min_available: string | null;
    /**
     * Decimal string with two fraction digits.
     */
    max_balance: string | null;
};

export type Account = {
    id: string;
    account_code: string;
    name: string;
    type: AccountType;
    normal_balance: Side;
    /**
     * null: all four currencies.
     */
    currency: Currency | null;
    parent_code: string | null;
    /**
     * Takes no postings.
     */
    is_group: boolean;
    description: string | null;
    /**
     * false: no posting or hold may leave `available` below zero. On a group it does not affect the accounts below.
     */
    allow_negative: boolean;
    status: AccountStatus;
    /**
     * Suspense and FX position accounts.
     */
    system: boolean;
    /**
     * Floor of `available` and ceiling of the balance, by currency, in the account’s normal direction.
     */
    limits: Array<AccountLimit>;
    /**
     * Sides on which it takes no entries.
     */
    blocked: Array<Side>;
    metadata: Metadata;
    version: number;
    created_at: string;
    updated_at: string;
};

export type AccountNode = {
    id: string;
    account_code: string;
    name: string;
    type: AccountType;
    normal_balance: Side;
    /**
     * null: all four currencies.
     */
    currency: Currency | null;
    parent_code: string | null;
    /**
     * Takes no postings.
     */
    is_group: boolean;
    description: string | null;
    /**
     * false: no posting or hold may leave `available` below zero. On a group it does not affect the accounts below.
     */
    allow_negative: boolean;
    status: AccountStatus;
    /**
     * Suspense and FX position accounts.
     */
    system: boolean;
    /**
     * Floor of `available` and ceiling of the balance, by currency, in the account’s normal direction.
     */
    limits: Array<AccountLimit>;
    /**
     * Sides on which it takes no entries.
     */
    blocked: Array<Side>;
    metadata: Metadata;
    version: number;
    created_at: string;
    updated_at: string;
    /**
     * Accounts directly below it, whether `depth` shows them or not.
     */
    children_count: number;
    children: Array<AccountNode>;
    /**
     * Of the node and all below it; only with `include=balances`.
     */
    balances?: Array<BalanceTotal>;
};

export type Transaction = {
    transaction_id: string;
    kind: TransactionKind;
    status: 'posted';
    idempotency_key: string;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<Entry>;
    metadata: Metadata;
    /**
     * When it counts. `created_at`, unless the request names another time.
     */
    effective_at: string;
    /**
     * What was asked for, where a closed period moved it; else null.
     */
    requested_effective_at: string | null;
    /**
     * When it was recorded.
     */
    created_at: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
    /**
     * The transaction that this one reverses.
     */
    reverses: string | null;
    /**
     * The transaction that completed its reversal.
     */
    reversed_by: string | null;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
    /**
     * What is left to reverse of each entry, in their order, while a part is reversed; else null.
     */
    unreversed: Array<string> | null;
    /**
     * Personal data. Only reads of transactions with `personal:read` open it; events, webhooks and exports have it sealed.
     */
    personal: Array<Personal>;
    /**
     * Fields whose texts were removed: `description`, `reference` or `metadata.<key>`.
     */
    redacted: Array<string>;
};

export type Entry = {
    account_id: string;
    account_code: string;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    side: Side;
    currency: Currency;
    /**
     * Decimal string with two fraction digits.
     */
    balance_after: string;
    /**
     * The line on the suspense account that balances a single posting.
     */
    counter: boolean;
};

export type Filter = {
    name: string;
    /**
     * Query text of `GET …/transactions`.
     */
    query: string;
};

export type Event = {
    id: string;
    type: 'transaction.posted' | 'account.created' | 'account.updated' | 'hold.created' | 'hold.voided' | 'hold.expired' | 'definition.changed' | 'books.updated' | 'period.closed' | 'period.reopened' | 'subject.erased' | 'transaction.redacted' | 'log.imported' | 'books.unfrozen';
    sequence: number;
    /**
     * Unix time in seconds.
     */
    created: number;
    /**
     * Id of the key or user, or the name of the internal caller.
     */
    actor: string;
    /**
     * Of the request that made the change; null if an internal caller gave none.
     */
    request_id: string | null;
    data: {
        [key: string]: unknown;
    };
    /**
     * Hash of this event and `previous_hash`. Keep it to detect later whether anything up to here was changed or removed.
     */
    hash: string;
    previous_hash: string;
};

export type WebhookHeader = {
    name: string;
    /**
     * Always null: it is never shown.
     */
    value: string | null;
};

export type WebhookConfig = {
    url: string;
    events: Array<WebhookEventType>;
    /**
     * false: new events are never delivered, pending deliveries fail, and manual retries are rejected (`webhook_disabled`); test deliveries are still sent. Judged when an event is processed, shortly after its request.
     */
    enabled: boolean;
    /**
     * Sent with every delivery.
     */
    headers: Array<WebhookHeader>;
    created_at: string;
    updated_at: string;
};

export type WebhookConfigWithSecret = {
    url: string;
    events: Array<WebhookEventType>;
    /**
     * false: new events are never delivered, pending deliveries fail, and manual retries are rejected (`webhook_disabled`); test deliveries are still sent. Judged when an event is processed, shortly after its request.
     */
    enabled: boolean;
    /**
     * Sent with every delivery.
     */
    headers: Array<WebhookHeader>;
    created_at: string;
    updated_at: string;
    /**
     * Shown only once; null: unchanged.
     */
    secret: string | null;
};

export type WebhookDelivery = {
    id: string;
    event_id: string;
    event_type: WebhookEventType;
    status: DeliveryStatus;
    /**
     * The receiver’s status; null: no answer.
     */
    status_code: number | null;
    /**
     * Why the attempt failed; null: it did not.
     */
    error_class: DeliveryErrorClass | null;
    /**
     * Attempts started so far, or queued for now.
     */
    attempts: number;
    /**
     * Automatic attempts.
     */
    max_attempts: number;
    /**
     * null: no attempt is due.
     */
    next_retry_at: string | null;
    created_at: string;
    /**
     * Only if it was delivered.
     */
    delivered_at?: string;
    /**
     * Only if it has failed.
     */
    failed_at?: string;
};

export type DeliveryAttempt = {
    number: number;
    started_at: string;
    duration_ms: number;
    /**
     * The receiver’s status; null: no answer.
     */
    status_code: number | null;
    /**
     * Why the attempt failed; null: it did not.
     */
    error_class: DeliveryErrorClass | null;
};

export type WebhookDeliveryDetail = {
    id: string;
    event_id: string;
    event_type: WebhookEventType;
    status: DeliveryStatus;
    /**
     * The receiver’s status; null: no answer.
     */
    status_code: number | null;
    /**
     * Why the attempt failed; null: it did not.
     */
    error_class: DeliveryErrorClass | null;
    /**
     * Attempts started so far, or queued for now.
     */
    attempts: number;
    /**
     * Automatic attempts.
     */
    max_attempts: number;
    /**
     * null: no attempt is due.
     */
    next_retry_at: string | null;
    created_at: string;
    /**
     * Only if it was delivered.
     */
    delivered_at?: string;
    /**
     * Only if it has failed.
     */
    failed_at?: string;
    payload: WebhookEvent;
    /**
     * The receiver’s last answer, up to 16 KiB; null: none.
     */
    response_body: string | null;
    attempt_history: Array<DeliveryAttempt>;
};

export type Hold = {
    hold_id: string;
    /**
     * `pending`, or how it ended.
     */
    status: HoldStatus;
    idempotency_key: string;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<HoldEntry>;
    metadata: Metadata;
    /**
     * From then on it can’t be captured; null: never.
     */
    expires_at: string | null;
    /**
     * How often it was captured.
     */
    captures: number;
    created_at: string;
    ended_at: string | null;
    /**
     * Position of its `hold.created` in the tenant’s log.
     */
    sequence: number;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
};

export type HoldEntry = {
    account_id: string;
    account_code: string;
    side: Side;
    currency: Currency;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    /**
     * Decimal string with two fraction digits.
     */
    captured: string;
    /**
     * Still reserved; `0.00` once the hold has ended.
     */
    remaining: string;
};

export type TriedHold = {
    hold_id: string | null;
    /**
     * `pending`, or how it ended.
     */
    status: HoldStatus;
    idempotency_key: string | null;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<HoldEntry>;
    metadata: Metadata;
    /**
     * From then on it can’t be captured; null: never.
     */
    expires_at: string | null;
    /**
     * How often it was captured.
     */
    captures: number;
    created_at: string;
    ended_at: string | null;
    sequence: number | null;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
};

export type TriedTransaction = {
    transaction_id: string | null;
    kind: TransactionKind;
    status: 'posted';
    idempotency_key: string | null;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<Entry>;
    metadata: Metadata;
    /**
     * When it counts. `created_at`, unless the request names another time.
     */
    effective_at: string;
    /**
     * What was asked for, where a closed period moved it; else null.
     */
    requested_effective_at: string | null;
    /**
     * When it was recorded.
     */
    created_at: string;
    sequence: number | null;
    /**
     * The transaction that this one reverses.
     */
    reverses: string | null;
    /**
     * The transaction that completed its reversal.
     */
    reversed_by: string | null;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
    /**
     * What is left to reverse of each entry, in their order, while a part is reversed; else null.
     */
    unreversed: Array<string> | null;
    /**
     * Personal data. Only reads of transactions with `personal:read` open it; events, webhooks and exports have it sealed.
     */
    personal: Array<Personal>;
    /**
     * Fields whose texts were removed: `description`, `reference` or `metadata.<key>`.
     */
    redacted: Array<string>;
};

export type Override = {
    reason: string;
    /**
     * Error codes, or ids of velocity limits, that would have refused it.
     */
    broken: Array<string>;
};

export type Origin = {
    /**
     * The hold that a capture took from.
     */
    hold_id: string | null;
    /**
     * Always null in this version.
     */
    template: string | null;
    /**
     * Always null in this version.
     */
    schedule_id: string | null;
    /**
     * Always null in this version.
     */
    occurrence: string | null;
    exchange: ExchangeOrigin | null;
    /**
     * Blocks and limits were overridden.
     */
    override: Override | null;
};

export type ExchangeRate = {
    base: Currency;
    quote: Currency;
    /**
     * 1 base = value quote.
     */
    value: string;
};

export type ExchangeOrigin = {
    rate: ExchangeRate;
    reference_rate: string | null;
    rounding: Rounding;
    /**
     * What was converted, without fees, in the debit currency.
     */
    converted_debit: string;
    /**
     * The same in the credit currency.
     */
    converted_credit: string;
    /**
     * Earned beyond the reference rate, in the credit currency; negative for a loss.
     */
    spread: string;
    /**
     * What rounding dropped of the computed amount, with 12 fraction digits.
     */
    residue: string;
};

export type LimitWindow = {
    rolling_seconds?: number;
    calendar?: Calendar;
    time_zone?: string;
};

export type VelocityLimit = {
    limit_id: string;
    account_code: string;
    /**
     * Of a group: `each` account below it by itself, or the `sum` of all together.
     */
    applies: LimitSubject;
    currency: Currency;
    side: Side;
    /**
     * Inclusive; null: none.
     */
    max_amount: string | null;
    /**
     * Inclusive; null: none.
     */
    max_count: number | null;
    window: LimitWindow;
    name: string | null;
    /**
     * A paused limit goes on counting, but refuses nothing.
     */
    status: LimitStatus;
    version: number;
    created_at: string;
    updated_at: string;
};

export type LimitUsage = {
    limit_id: string;
    /**
     * Whose use it is: an account or a group.
     */
    account_code: string;
    /**
     * What the window has used.
     */
    amount: string;
    count: number;
    /**
     * Never below zero; null: the limit has no `max_amount`.
     */
    remaining_amount: string | null;
    /**
     * Never below zero; null: the limit has no `max_count`.
     */
    remaining_count: number | null;
    /**
     * Of a rolling window: of its oldest step, which counts whole.
     */
    window_start: string;
    /**
     * Exclusive. Of a rolling window: of the present step.
     */
    window_end: string;
};

export type BatchSingle = {
    op: 'single';
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Case-sensitive.
     */
    account_code: string;
    /**
     * A decimal string greater than zero with at most 13 digits before and 2 after the point.
     */
    amount: string;
    side: Side;
    currency: Currency;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type BatchDouble = {
    op: 'double';
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Debits and credits must be equal in each currency. An account may appear more than once.
     */
    entries: Array<EntryInput>;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type BatchExchange = {
    op: 'exchange';
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Wallet to wallet: the one that pays. Bank to bank: the one that receives.
     */
    debit: ExchangeLeg;
    /**
     * In another currency.
     */
    credit: ExchangeLeg;
    /**
     * 1 base = value quote. Left out where both legs have an amount.
     */
    rate?: ExchangeRateInput | null;
    /**
     * Of the computed amount.
     */
    rounding?: Rounding | null;
    /**
     * Credited out of the leg of their currency: the debit’s before converting, the credit’s after.
     */
    fees?: Array<ExchangeFee> | null;
    /**
     * Where the difference to a reference rate of the same base and quote is credited; a loss is debited.
     */
    spread?: ExchangeSpread | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
    /**
     * Personal data of at most four subjects, each once. It is encrypted under a key of its subject, which `POST …/subjects/erase` deletes. It is no part of what makes two requests the same.
     */
    personal?: Array<PersonalInput> | null;
};

export type BatchHold = {
    op: 'hold';
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Debits and credits must be equal in each currency. An account may appear more than once.
     */
    entries: Array<EntryInput>;
    /**
     * From then on it can’t be captured, and what remains is released. Left out: never.
     */
    expires_at?: string | null;
    /**
     * The same in seconds from now, in place of `expires_at`. For retries that compute the time anew.
     */
    expires_in?: number | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
};

export type BatchCapture = {
    op: 'capture';
    hold_id: string;
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Of a hold of two entries. With neither this nor `entries`: all that remains.
     */
    amount?: string | null;
    /**
     * Entries of the hold by account, side and currency, with amounts of their own, equal in each currency.
     */
    entries?: Array<EntryInput> | null;
    /**
     * true: what is not captured is released. false: it stays held.
     */
    final?: boolean | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, where that is not when it is recorded: a day of the books’ time zone (its first millisecond), or RFC 3339 with an offset and at most three fraction digits. From 1970 to `future_days` ahead.
     */
    effective_at?: string | null;
};

export type BatchVoid = {
    op: 'void';
    hold_id: string;
    description?: string | null;
};

export type BatchReverse = {
    op: 'reverse';
    transaction_id: string;
    /**
     * Printable characters without a blank at either end. Kept for ever: the same item is done once.
     */
    idempotency_key: string;
    description?: string | null;
    /**
     * Your own reference.
     */
    reference?: string | null;
    /**
     * Of a transaction of two entries. With neither this nor `entries`: all that is left.
     */
    amount?: string | null;
    /**
     * As they are to be posted: mirrors of the transaction’s entries with amounts of their own, equal in each currency.
     */
    entries?: Array<EntryInput> | null;
    /**
     * Free-form, at most 16 KiB as JSON, at most 10 deep. A number that a double cannot represent is rejected: send it as a string. Every version stays in the log for ever: personal data that you may have to erase belongs in `personal` of a posting.
     */
    metadata?: Metadata | null;
    /**
     * What must hold for accounts, also for those that do not move, or nothing is posted (`condition_failed`).
     */
    require?: Array<AccountCondition> | null;
    /**
     * From this time on, by the database’s clock, the request is refused (`too_late`). A retry sends the same time again.
     */
    valid_until?: string | null;
    /**
     * Posts although blocks, floors (also `allow_negative`), ceilings or velocity limits would refuse it; needs the scope `limits:override`. `origin.override` keeps the reason and what would have refused.
     */
    override_reason?: string | null;
    /**
     * When it counts, as for postings; `original`: when the transaction counts. Not before that. Left out: now, or when the transaction counts if that is later.
     */
    effective_at?: string | null;
};

export type BatchItemData = {
    transaction?: Transaction | TriedTransaction;
    hold?: Hold | TriedHold;
};

export type BatchItemResult = {
    status: number;
    /**
     * true: an earlier request had done it.
     */
    replayed: boolean;
    data?: BatchItemData;
    error?: string;
    code?: ErrorCode;
    /**
     * The first wrong field, below the item.
     */
    details?: ProblemDetails;
    /**
     * All wrong fields, at most 20.
     */
    errors?: Array<FieldError>;
};

export type BalanceTotal = {
    currency: Currency;
    /**
     * Decimal string with two fraction digits.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    /**
     * Signed, in the node’s normal direction.
     */
    balance: string;
};

export type Balance = {
    account_id: string;
    account_code: string;
    currency: Currency;
    /**
     * Signed, in the account’s normal direction.
     */
    balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    /**
     * What open holds reserve. Null with a bound: of the past, holds are not known.
     */
    pending_debits: string | null;
    /**
     * What open holds reserve. Null with a bound: of the past, holds are not known.
     */
    pending_credits: string | null;
    /**
     * The balance without what is pending on its way out. Null with a bound: of the past, holds are not known.
     */
    available: string | null;
    /**
     * Number of events that changed this balance: transactions, holds, releases. With a bound, that of the newest transaction that counts.
     */
    version: number;
    updated_at: string | null;
    /**
     * `as_of` of the request as an instant; null: whenever it counts.
     */
    as_of: string | null;
    /**
     * Up to where the log was read, with a bound: ask with it again, and the answer is the same. Null without a bound.
     */
    known_sequence: number | null;
};

export type DailyBalance = {
    date: string;
    /**
     * Signed, in the account’s normal direction.
     */
    opening: string;
    /**
     * What counts on this day.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    /**
     * Decimal string with two fraction digits.
     */
    closing: string;
};

export type BalanceChange = {
    transaction_id: string;
    sequence: number;
    side: Side;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    /**
     * Decimal string with two fraction digits.
     */
    balance_after: string;
    created_at: string;
};

export type BooksSettings = {
    /**
     * IANA name: where the days of dates and periods begin.
     */
    timezone: string;
    /**
     * Last day of the fiscal year, `MM-DD`; `02-29` is the last day of February.
     */
    fiscal_year_end: string;
    /**
     * The equity account that takes what a year has earned.
     */
    retained_earnings_code: string;
    /**
     * What happens to a posting into a closed period: it is refused, or counts from the first open millisecond on.
     */
    late_entries: LateEntries;
    /**
     * How many days ahead a posting may count.
     */
    future_days: number;
    /**
     * Codes of accounts and groups that the cash flow calls cash.
     */
    cash_accounts: Array<string>;
    /**
     * Keys of transactions’ `metadata` by which lists can be filtered.
     */
    indexed_metadata: Array<string>;
};

export type Freeze = {
    at: string;
    reason: string;
    /**
     * End of the log at that time.
     */
    sequence: number;
};

export type Verified = {
    sequence: number;
    at: string;
};

export type IndexStatus = {
    key: string;
    status: 'building' | 'ready';
};

export type Books = {
    /**
     * IANA name: where the days of dates and periods begin.
     */
    timezone: string;
    /**
     * Last day of the fiscal year, `MM-DD`; `02-29` is the last day of February.
     */
    fiscal_year_end: string;
    /**
     * The equity account that takes what a year has earned.
     */
    retained_earnings_code: string;
    /**
     * What happens to a posting into a closed period: it is refused, or counts from the first open millisecond on.
     */
    late_entries: LateEntries;
    /**
     * How many days ahead a posting may count.
     */
    future_days: number;
    /**
     * Codes of accounts and groups that the cash flow calls cash.
     */
    cash_accounts: Array<string>;
    /**
     * Keys of transactions’ `metadata` by which lists can be filtered.
     */
    indexed_metadata: Array<string>;
    /**
     * The last closed day; null: nothing is closed.
     */
    closed_through: string | null;
    /**
     * The last day that is closed for ever.
     */
    final_through: string | null;
    status: 'active' | 'frozen';
    /**
     * Since when every change is `books_frozen`, and what verification has found; null: the books are active.
     */
    frozen: Freeze | null;
    /**
     * The last event of the last walk over the whole log that found no difference, and its end; null: there was none yet.
     */
    verified: Verified | null;
    /**
     * How far the keys of `indexed_metadata` are indexed.
     */
    indexes: Array<IndexStatus>;
    /**
     * Counts changes, closings and reopenings; 0 before the first.
     */
    version: number;
    updated_at: string | null;
};

export type Period = {
    id: string;
    /**
     * The last closed day; null: nothing is closed any more.
     */
    through: string | null;
    /**
     * Closed for ever.
     */
    final: boolean;
    /**
     * Revenue and expense were brought to zero.
     */
    year_end: boolean;
    /**
     * The transactions that did so.
     */
    closing_transactions: Array<string>;
    reason: string;
    action: PeriodAction;
    /**
     * Id of the key or user, or the name of the internal caller.
     */
    actor: string;
    created_at: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type JobProgress = {
    done: number;
    /**
     * 0: not known yet.
     */
    total: number;
};

export type JobError = {
    code: string;
    message: string;
    /**
     * Of an import: the line of the file at fault.
     */
    line?: number;
};

export type JobOutput = {
    content_type: string;
    bytes: number;
    sha256: string;
};

export type Job = {
    id: string;
    /**
     * Of a report: its name.
     */
    kind: string;
    status: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';
    progress: JobProgress;
    /**
     * Why it failed; null: it did not.
     */
    error: JobError | null;
    /**
     * null: there is none yet.
     */
    result: JobOutput | null;
    created_at: string;
    finished_at: string | null;
    /**
     * When it and its result are deleted, 7 days after its end.
     */
    expires_at: string | null;
};

export type Personal = {
    subject_id: string;
    /**
     * Only if `open`.
     */
    subject: string | null;
    /**
     * Only if `open`.
     */
    data: {
        [key: string]: unknown;
    } | null;
    /**
     * `sealed`: the key lacks `personal:read`, or the data came from another tenant.
     */
    state: PersonalState;
};

export type Proof = {
    /**
     * Its leaf in the tree is `sequence` − 1.
     */
    sequence: number;
    /**
     * The exact text that is hashed: tenant, sequence, id, type, time, actor and request id of the event.
     */
    header: string;
    /**
     * Base64 of a `ledger.v1` message; null: redacted since.
     */
    payload: string | null;
    /**
     * SHA-256 of the payload as it was posted.
     */
    payload_hash: string;
    /**
     * The hash of the event before; of the first 64 zeros.
     */
    previous_hash: string;
    /**
     * sha256(`previous_hash` ‖ sha256(`header`) ‖ `payload_hash`), all as bytes. It is the data of the leaf.
     */
    hash: string;
    /**
     * From the leaf’s sibling up to the root: hashes of 32 bytes in base64.
     */
    path: Array<string>;
    /**
     * Signed note: origin, size and root of the tree, and its signatures.
     */
    checkpoint: string;
};

export type Consistency = {
    old: number;
    new: number;
    /**
     * Hashes of 32 bytes in base64.
     */
    path: Array<string>;
};

export type CheckpointKey = {
    /**
     * Name, id and public key, as C2SP signed-note has it.
     */
    vkey: string;
    /**
     * When another key took its place; null: it signs.
     */
    retired_at: string | null;
};

export type ReportColumn = {
    /**
     * Its last day.
     */
    key: string;
    /**
     * null: from the beginning.
     */
    from: string | null;
    to: string;
};

export type ReportLine = {
    /**
     * null: a computed line.
     */
    account_code: string | null;
    name: string;
    type: AccountType;
    parent_code: string | null;
    /**
     * 1 at the top of the chart.
     */
    depth: number;
    /**
     * Its amounts are the sums of the lines below it.
     */
    is_group: boolean;
    /**
     * A group that has taken in deeper lines. Lines that are no group, or folded, add up to the totals.
     */
    folded: boolean;
    computed: boolean;
    section: string | null;
    /**
     * The value of `group_by`; null: there is none.
     */
    group: string | null;
    currency: Currency;
    /**
     * For each column its amounts by name.
     */
    values: Array<{
        [key: string]: string;
    }>;
};

export type ReportTotal = {
    currency: Currency;
    section: string | null;
    /**
     * For each column its amounts by name.
     */
    values: Array<{
        [key: string]: string;
    }>;
};

export type AsRecorded = {
    sequence: number;
    hash: string | null;
    at: string | null;
};

export type AccountsReport = {
    report: ReportName;
    /**
     * As they were sent, with defaults filled in and dates resolved.
     */
    parameters: {
        [key: string]: unknown;
    };
    /**
     * The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.
     */
    as_recorded: AsRecorded;
    /**
     * Whether the books are frozen: verification has found that something differs from the log.
     */
    frozen: boolean;
    columns: Array<ReportColumn>;
    lines: Array<ReportLine>;
    totals: Array<ReportTotal>;
};

export type StatementLine = {
    transaction_id: string;
    sequence: number;
    effective_at: string;
    created_at: string;
    description: string;
    reference: string | null;
    side: Side;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    /**
     * Decimal string with two fraction digits.
     */
    running_balance?: string;
    /**
     * Decimal string with two fraction digits.
     */
    balance_after?: string;
};

export type AccountStatementReport = {
    report: ReportName;
    /**
     * As they were sent, with defaults filled in and dates resolved.
     */
    parameters: {
        [key: string]: unknown;
    };
    /**
     * The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.
     */
    as_recorded: AsRecorded;
    /**
     * Whether the books are frozen: verification has found that something differs from the log.
     */
    frozen: boolean;
    account_code: string;
    name: string;
    type: AccountType;
    currency: Currency;
    /**
     * In the account’s normal direction, as the others.
     */
    opening_balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    closing_balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    lines: Array<StatementLine>;
};

export type AccountStatement = {
    account_code: string;
    name: string;
    type: AccountType;
    currency: Currency;
    /**
     * In the account’s normal direction, as the others.
     */
    opening_balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    closing_balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    lines: Array<StatementLine>;
};

export type GeneralLedgerReport = {
    report: ReportName;
    /**
     * As they were sent, with defaults filled in and dates resolved.
     */
    parameters: {
        [key: string]: unknown;
    };
    /**
     * The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.
     */
    as_recorded: AsRecorded;
    /**
     * Whether the books are frozen: verification has found that something differs from the log.
     */
    frozen: boolean;
    statements: Array<AccountStatement>;
};

export type JournalEntry = {
    account_code: string;
    name: string;
    side: Side;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    currency: Currency;
};

export type JournalLine = {
    transaction_id: string;
    sequence: number;
    effective_at: string;
    created_at: string;
    kind: TransactionKind;
    description: string;
    reference: string | null;
    entries: Array<JournalEntry>;
};

export type JournalReport = {
    report: ReportName;
    /**
     * As they were sent, with defaults filled in and dates resolved.
     */
    parameters: {
        [key: string]: unknown;
    };
    /**
     * The state of the log that the report reads: its last event. Sequence 0 and nulls before the first.
     */
    as_recorded: AsRecorded;
    /**
     * Whether the books are frozen: verification has found that something differs from the log.
     */
    frozen: boolean;
    lines: Array<JournalLine>;
};

export type AuditEntry = {
    id: string;
    /**
     * What was done, as `member.role_changed`.
     */
    type: string;
    /**
     * Id of the user that did it; null: nobody was logged in.
     */
    actor: string | null;
    /**
     * Id of what it was done to.
     */
    subject: string | null;
    /**
     * Of the client; null: unknown.
     */
    address: string | null;
    /**
     * Of the client, cut after 512 characters; null: it sent none.
     */
    user_agent: string | null;
    created_at: string;
    /**
     * Details by type; never a secret.
     */
    data: {
        [key: string]: unknown;
    };
    /**
     * Position in the log, from 1 without gaps.
     */
    sequence: number;
    /**
     * SHA-256 of the 32 bytes of `previous_hash` and the SHA-256 of this entry without its hashes, as canonical JSON (RFC 8785). Hex.
     */
    hash: string;
    /**
     * Hash of the entry before; 64 zeros for the first.
     */
    previous_hash: string;
};

export type Member = {
    user_id: string;
    email: string;
    first_name: string;
    last_name: string;
    role: Role;
    /**
     * Whether its second factor is on.
     */
    totp_enabled: boolean;
    /**
     * Member since.
     */
    created_at: string;
};

export type Invitation = {
    id: string;
    email: string;
    role: Role;
    status: 'pending' | 'accepted' | 'revoked' | 'expired';
    /**
     * Id of the user that sent it.
     */
    invited_by: string;
    created_at: string;
    expires_at: string;
};

export type TransactionPostedData = {
    transaction_id: string;
    kind: TransactionKind;
    idempotency_key: string;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    lines: Array<TransactionPostedLine>;
    /**
     * When it counts. `created_at`, unless the request names another time.
     */
    effective_at: string;
    /**
     * What was asked for, where a closed period moved it; else null.
     */
    requested_effective_at: string | null;
    /**
     * The transaction that this one reverses.
     */
    reverses: string | null;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
    /**
     * Personal data. Only reads of transactions with `personal:read` open it; events, webhooks and exports have it sealed.
     */
    personal: Array<Personal>;
    /**
     * Fields whose texts were removed: `description`, `reference` or `metadata.<key>`.
     */
    redacted: Array<string>;
    metadata: Metadata;
    /**
     * Of a reversal: what is left to reverse of the transaction in `reverses`, by its entries; null: nothing.
     */
    unreversed: Array<string> | null;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type TransactionPostedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'transaction.posted';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: TransactionPostedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type BalanceUpdatedData = {
    account_id: string;
    account_code: string;
    currency: Currency;
    /**
     * Signed, in the account’s normal direction.
     */
    balance: string;
    /**
     * The balance before.
     */
    previous_balance: string;
    /**
     * Decimal string with two fraction digits.
     */
    debits: string;
    /**
     * Decimal string with two fraction digits.
     */
    credits: string;
    /**
     * What open holds reserve.
     */
    pending_debits: string;
    /**
     * What open holds reserve.
     */
    pending_credits: string;
    /**
     * The balance without what is pending on its way out.
     */
    available: string;
    /**
     * Number of events that changed this balance: transactions, holds, releases.
     */
    version: number;
    /**
     * null: a hold was made, voided or has expired.
     */
    transaction_id: string | null;
    /**
     * The hold that was made, captured, voided or has expired; null: another posting.
     */
    hold_id: string | null;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type BalanceUpdatedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'balance.updated';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: BalanceUpdatedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type AccountCreatedData = {
    id: string;
    account_code: string;
    name: string;
    type: AccountType;
    normal_balance: Side;
    /**
     * null: all four currencies.
     */
    currency: Currency | null;
    parent_code: string | null;
    /**
     * Takes no postings.
     */
    is_group: boolean;
    description: string | null;
    /**
     * false: no posting or hold may leave `available` below zero. On a group it does not affect the accounts below.
     */
    allow_negative: boolean;
    status: AccountStatus;
    /**
     * Suspense and FX position accounts.
     */
    system: boolean;
    /**
     * Floor of `available` and ceiling of the balance, by currency, in the account’s normal direction.
     */
    limits: Array<AccountLimit>;
    /**
     * Sides on which it takes no entries.
     */
    blocked: Array<Side>;
    metadata: Metadata;
    version: number;
    created_at: string;
    updated_at: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type AccountCreatedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'account.created';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: AccountCreatedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type AccountUpdatedData = {
    id: string;
    account_code: string;
    name: string;
    type: AccountType;
    normal_balance: Side;
    /**
     * null: all four currencies.
     */
    currency: Currency | null;
    parent_code: string | null;
    /**
     * Takes no postings.
     */
    is_group: boolean;
    description: string | null;
    /**
     * false: no posting or hold may leave `available` below zero. On a group it does not affect the accounts below.
     */
    allow_negative: boolean;
    status: AccountStatus;
    /**
     * Suspense and FX position accounts.
     */
    system: boolean;
    /**
     * Floor of `available` and ceiling of the balance, by currency, in the account’s normal direction.
     */
    limits: Array<AccountLimit>;
    /**
     * Sides on which it takes no entries.
     */
    blocked: Array<Side>;
    metadata: Metadata;
    version: number;
    created_at: string;
    updated_at: string;
    /**
     * Names of the changed fields.
     */
    changes: Array<string>;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type AccountUpdatedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'account.updated';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: AccountUpdatedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type HoldCreatedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'hold.created';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: Hold;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type HoldCapturedData = {
    hold_id: string;
    /**
     * `pending`, or how it ended.
     */
    status: HoldStatus;
    idempotency_key: string;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<HoldEntry>;
    metadata: Metadata;
    /**
     * From then on it can’t be captured; null: never.
     */
    expires_at: string | null;
    /**
     * How often it was captured.
     */
    captures: number;
    created_at: string;
    ended_at: string | null;
    /**
     * Position of its `hold.created` in the tenant’s log.
     */
    sequence: number;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
    transaction_id: string;
};

export type HoldCapturedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'hold.captured';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: HoldCapturedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type HoldVoidedData = {
    hold_id: string;
    /**
     * `pending`, or how it ended.
     */
    status: HoldStatus;
    idempotency_key: string;
    description: string;
    reference: string | null;
    /**
     * null: several currencies.
     */
    currency: Currency | null;
    /**
     * Sum of the debits; null if there are several currencies.
     */
    amount: string | null;
    entries: Array<HoldEntry>;
    metadata: Metadata;
    /**
     * From then on it can’t be captured; null: never.
     */
    expires_at: string | null;
    /**
     * How often it was captured.
     */
    captures: number;
    created_at: string;
    ended_at: string | null;
    /**
     * Position of its `hold.created` in the tenant’s log.
     */
    sequence: number;
    /**
     * What it came from besides its entries; null: nothing.
     */
    origin: Origin | null;
    /**
     * The `description` of the void.
     */
    void_description: string;
};

export type HoldVoidedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'hold.voided';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: HoldVoidedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type HoldExpiredEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'hold.expired';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: Hold;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type DefinitionChangedData = {
    kind: 'limit' | 'monitor' | 'template' | 'schedule';
    id: string;
    /**
     * Counts its changes, from 1.
     */
    version: number;
    /**
     * As it is after the change; null: deleted.
     */
    record: {
        [key: string]: unknown;
    } | null;
};

export type DefinitionChangedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'definition.changed';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: DefinitionChangedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type BooksUpdatedData = {
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
    books: BooksSettings;
};

export type BooksUpdatedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'books.updated';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: BooksUpdatedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type PeriodClosedData = {
    id: string;
    /**
     * The last closed day; null: nothing is closed any more.
     */
    through: string | null;
    /**
     * Closed for ever.
     */
    final: boolean;
    /**
     * Revenue and expense were brought to zero.
     */
    year_end: boolean;
    /**
     * The transactions that did so.
     */
    closing_transactions: Array<string>;
    reason: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type PeriodClosedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'period.closed';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: PeriodClosedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type PeriodReopenedData = {
    id: string;
    /**
     * The last closed day; null: nothing is closed any more.
     */
    through: string | null;
    /**
     * Closed for ever.
     */
    final: boolean;
    /**
     * Revenue and expense were brought to zero.
     */
    year_end: boolean;
    /**
     * The transactions that did so.
     */
    closing_transactions: Array<string>;
    reason: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type PeriodReopenedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'period.reopened';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: PeriodReopenedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type SubjectErasedData = {
    subject_id: string;
    /**
     * Empty when not sent.
     */
    reason: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type SubjectErasedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'subject.erased';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: SubjectErasedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type TransactionRedactedData = {
    transaction_id: string;
    /**
     * Position of the transaction’s event.
     */
    redacted_sequence: number;
    /**
     * Its id.
     */
    redacted_event_id: string;
    /**
     * `description`, `reference` or `metadata.<key>`.
     */
    fields: Array<string>;
    reason: string;
    /**
     * SHA-256 of the payload as it was posted.
     */
    payload_hash: string;
    /**
     * SHA-256 of the payload after this redaction.
     */
    redacted_hash: string;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type TransactionRedactedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'transaction.redacted';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: TransactionRedactedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type LogImportedData = {
    /**
     * Whose log it was.
     */
    tenant_id: string;
    /**
     * Number of events that follow.
     */
    size: number;
    /**
     * Root of that log’s Merkle tree.
     */
    root: string;
    /**
     * The signed checkpoint that came with it.
     */
    checkpoint: string | null;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type LogImportedEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'log.imported';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: LogImportedData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type BooksUnfrozenData = {
    /**
     * The freeze that has ended.
     */
    frozen: Freeze;
    /**
     * Why the operator ended it.
     */
    reason: string;
    /**
     * Whether a restored, shorter log was accepted.
     */
    rewound: boolean;
    /**
     * Position of its event in the tenant’s log.
     */
    sequence: number;
};

export type BooksUnfrozenEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: 'books.unfrozen';
    /**
     * Unix time in seconds.
     */
    created: number;
    data: BooksUnfrozenData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type TransactionPostedLine = {
    account_id: string;
    account_code: string;
    /**
     * Decimal string with two fraction digits.
     */
    amount: string;
    side: Side;
    currency: Currency;
};

export type TestData = {
    message: string;
};

export type TestEvent = {
    /**
     * The same on every attempt: detect repetitions by it.
     */
    id: string;
    type: WebhookEventType;
    /**
     * Unix time in seconds.
     */
    created: number;
    data: TestData;
    tenant_id: string;
    /**
     * false: a test delivery.
     */
    livemode: boolean;
};

export type LiveWebhookEvent = ({
    type: 'transaction.posted';
} & TransactionPostedEvent) | ({
    type: 'balance.updated';
} & BalanceUpdatedEvent) | ({
    type: 'account.created';
} & AccountCreatedEvent) | ({
    type: 'account.updated';
} & AccountUpdatedEvent) | ({
    type: 'hold.created';
} & HoldCreatedEvent) | ({
    type: 'hold.captured';
} & HoldCapturedEvent) | ({
    type: 'hold.voided';
} & HoldVoidedEvent) | ({
    type: 'hold.expired';
} & HoldExpiredEvent) | ({
    type: 'definition.changed';
} & DefinitionChangedEvent) | ({
    type: 'books.updated';
} & BooksUpdatedEvent) | ({
    type: 'period.closed';
} & PeriodClosedEvent) | ({
    type: 'period.reopened';
} & PeriodReopenedEvent) | ({
    type: 'subject.erased';
} & SubjectErasedEvent) | ({
    type: 'transaction.redacted';
} & TransactionRedactedEvent) | ({
    type: 'log.imported';
} & LogImportedEvent) | ({
    type: 'books.unfrozen';
} & BooksUnfrozenEvent);

export type WebhookEvent = LiveWebhookEvent | TestEvent;

export type AccountStatus = 'active' | 'closed';

export type OnExisting = 'error' | 'skip';

export type AccountType = 'asset' | 'liability' | 'equity' | 'revenue' | 'expense';

export type BusinessType = 'wallet' | 'exchange' | 'lending' | 'payment_processor' | 'other';

export type Calendar = 'day' | 'week' | 'month' | 'year';

export type Currency = 'NGN' | 'USD' | 'EUR' | 'GBP';

export type DeliveryErrorClass = 'dns' | 'refused' | 'reset' | 'timeout' | 'tls' | 'protocol' | 'response_too_large' | 'address_not_allowed' | 'redirect' | 'http_status' | 'webhook_disabled' | 'secret_unreadable';

export type DeliveryStatus = 'pending' | 'delivered' | 'failed';

export type ErrorCode = 'invalid_json' | 'validation_failed' | 'invalid_delivery_id' | 'malformed_request' | 'unauthenticated' | 'totp_required' | 'forbidden' | 'tenant_suspended' | 'tenant_closed' | 'email_unverified' | 'route_not_found' | 'tenant_not_found' | 'account_not_found' | 'transaction_not_found' | 'hold_not_found' | 'limit_not_found' | 'job_not_found' | 'filter_not_found' | 'event_not_found' | 'tile_not_found' | 'subject_not_found' | 'key_not_found' | 'member_not_found' | 'invitation_not_found' | 'provider_not_found' | 'webhook_not_configured' | 'delivery_not_found' | 'method_not_allowed' | 'request_timeout' | 'email_taken' | 'slug_taken' | 'member_exists' | 'last_owner' | 'account_code_taken' | 'books_frozen' | 'books_not_empty' | 'index_building' | 'chart_exists' | 'version_conflict' | 'account_not_empty' | 'account_is_system' | 'already_reversed' | 'hold_ended' | 'job_not_finished' | 'delivery_not_failed' | 'webhook_disabled' | 'payload_too_large' | 'unsupported_media_type' | 'range_not_satisfiable' | 'parent_invalid' | 'unbalanced' | 'insufficient_funds' | 'account_closed' | 'account_is_group' | 'currency_not_allowed' | 'balance_overflow' | 'period_not_over' | 'period_final' | 'condition_failed' | 'account_blocked' | 'limit_exceeded' | 'hold_exceeded' | 'reversal_exceeded' | 'entries_mismatch' | 'too_many' | 'too_late' | 'too_large' | 'report_too_large' | 'effective_at_out_of_range' | 'effective_before_original' | 'future_dated' | 'period_closed' | 'import_invalid' | 'token_invalid' | 'idempotency_key_reused' | 'rate_limited' | 'headers_too_large' | 'internal' | 'test_failed' | 'overloaded' | 'unavailable';

export type ExportFormat = 'ndjson' | 'csv';

export type ProofFormat = 'json' | 'tlog-proof';

export type HoldStatus = 'pending' | 'captured' | 'voided' | 'expired';

export type LimitStatus = 'active' | 'paused';

export type LateEntries = 'refuse' | 'next_open';

export type LimitSubject = 'account' | 'each' | 'sum';

export type ClosingChoice = 'include' | 'exclude';

export type EntryOrder = 'effective' | 'posted';

export type ReportColumns = 'total' | 'month' | 'quarter' | 'year';

export type ReportComparison = 'none' | 'previous_period' | 'previous_year';

export type ReportFormat = 'json' | 'csv' | 'xlsx' | 'pdf';

export type ReportName = 'trial-balance' | 'balance-sheet' | 'income-statement' | 'cash-flow' | 'account-statement' | 'general-ledger' | 'journal';

export type PeriodAction = 'close' | 'reopen';

export type PersonalState = 'open' | 'sealed' | 'erased';

export type Role = 'owner' | 'admin' | 'accountant' | 'viewer';

export type Rounding = 'half_even' | 'half_up' | 'down' | 'up';

export type Scope = 'accounts:read' | 'accounts:write' | 'balances:read' | 'transactions:read' | 'transactions:write' | 'webhooks:manage' | 'reports:read' | 'limits:override' | 'periods:close' | 'periods:reopen' | 'reconciliations:manage' | 'personal:read' | 'personal:manage';

export type Side = 'debit' | 'credit';

export type TransactionKind = 'single' | 'double' | 'reversal' | 'exchange' | 'capture' | 'closing';

export type WebhookEventType = 'transaction.posted' | 'balance.updated' | 'account.created' | 'account.updated' | 'hold.created' | 'hold.captured' | 'hold.voided' | 'hold.expired' | 'definition.changed' | 'books.updated' | 'period.closed' | 'period.reopened' | 'subject.erased' | 'transaction.redacted' | 'log.imported' | 'books.unfrozen' | 'test.webhook';

export type GetOpenApiCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/openapi.json';
};

export type GetOpenApiResponses = {
    /**
     * OpenAPI 3.1
     */
    200: {
        [key: string]: unknown;
    };
};

export type GetOpenApiResponse = GetOpenApiResponses[keyof GetOpenApiResponses];

export type RegisterCall = {
    body: RegisterRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/register';
};

export type RegisterResponses = {
    /**
     * Registered
     */
    201: UserResult;
};

export type RegisterResponse = RegisterResponses[keyof RegisterResponses];

export type LoginCall = {
    body: LoginRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/login';
};

export type LoginResponses = {
    /**
     * Logged in
     */
    200: SessionResult;
};

export type LoginResponse = LoginResponses[keyof LoginResponses];

export type RefreshCall = {
    body: RefreshRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/refresh';
};

export type RefreshResponses = {
    /**
     * Renewed
     */
    200: SessionResult;
};

export type RefreshResponse = RefreshResponses[keyof RefreshResponses];

export type LogoutCall = {
    body: LogoutRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/logout';
};

export type LogoutResponses = {
    /**
     * Logged out
     */
    200: DoneResult;
};

export type LogoutResponse = LogoutResponses[keyof LogoutResponses];

export type GetUserCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/user';
};

export type GetUserResponses = {
    /**
     * The user of the token
     */
    200: GetUserResult;
};

export type GetUserResponse = GetUserResponses[keyof GetUserResponses];

export type SendVerificationEmailCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/auth/email/send';
};

export type SendVerificationEmailResponses = {
    /**
     * Accepted
     */
    202: DoneResult;
};

export type SendVerificationEmailResponse = SendVerificationEmailResponses[keyof SendVerificationEmailResponses];

export type VerifyEmailCall = {
    body: VerifyEmailRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/email/verify';
};

export type VerifyEmailResponses = {
    /**
     * Verified
     */
    200: UserResult;
};

export type VerifyEmailResponse = VerifyEmailResponses[keyof VerifyEmailResponses];

export type ChangePasswordCall = {
    body: ChangePasswordRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/password/change';
};

export type ChangePasswordResponses = {
    /**
     * Changed
     */
    200: DoneResult;
};

export type ChangePasswordResponse = ChangePasswordResponses[keyof ChangePasswordResponses];

export type ForgotPasswordCall = {
    body: ForgotPasswordRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/password/forgot';
};

export type ForgotPasswordResponses = {
    /**
     * Accepted
     */
    202: DoneResult;
};

export type ForgotPasswordResponse = ForgotPasswordResponses[keyof ForgotPasswordResponses];

export type ResetPasswordCall = {
    body: ResetPasswordRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/password/reset';
};

export type ResetPasswordResponses = {
    /**
     * Reset
     */
    200: DoneResult;
};

export type ResetPasswordResponse = ResetPasswordResponses[keyof ResetPasswordResponses];

export type DeleteTotpCall = {
    body: DeleteTotpRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/totp';
};

export type DeleteTotpResponses = {
    /**
     * Off
     */
    200: DeleteTotpResult;
};

export type DeleteTotpResponse = DeleteTotpResponses[keyof DeleteTotpResponses];

export type StartTotpCall = {
    body: StartTotpRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/totp';
};

export type StartTotpResponses = {
    /**
     * Created, not on yet
     */
    200: StartTotpResult;
};

export type StartTotpResponse = StartTotpResponses[keyof StartTotpResponses];

export type ConfirmTotpCall = {
    body: ConfirmTotpRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/totp/confirm';
};

export type ConfirmTotpResponses = {
    /**
     * On
     */
    200: ConfirmTotpResult;
};

export type ConfirmTotpResponse = ConfirmTotpResponses[keyof ConfirmTotpResponses];

export type StartOidcCall = {
    body?: never;
    path?: never;
    query: {
        /**
         * Where the browser goes afterwards: a path of this server, or an address whose origin is in `CORS_ORIGINS`.
         */
        return_to: string;
    };
    url: '/v1/auth/oidc/{provider}/start';
};

export type FinishOidcCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/auth/oidc/{provider}/callback';
};

export type ExchangeOidcCodeCall = {
    body: ExchangeOidcCodeRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/oidc/token';
};

export type ExchangeOidcCodeResponses = {
    /**
     * Logged in
     */
    200: SessionResult;
};

export type ExchangeOidcCodeResponse = ExchangeOidcCodeResponses[keyof ExchangeOidcCodeResponses];

export type LinkOidcCall = {
    body: LinkOidcRequest;
    path?: never;
    query?: never;
    url: '/v1/auth/oidc/{provider}/link';
};

export type LinkOidcResponses = {
    /**
     * Linked
     */
    200: LinkOidcResult;
};

export type LinkOidcResponse = LinkOidcResponses[keyof LinkOidcResponses];

export type ListTenantsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants';
};

export type ListTenantsResponses = {
    /**
     * A page of tenants
     */
    200: ListTenantsResult;
};

export type ListTenantsResponse = ListTenantsResponses[keyof ListTenantsResponses];

export type CreateTenantCall = {
    body: CreateTenantRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants';
};

export type CreateTenantResponses = {
    /**
     * Created
     */
    201: TenantResult;
};

export type CreateTenantResponse = CreateTenantResponses[keyof CreateTenantResponses];

export type UpdateTenantCall = {
    body: UpdateTenantRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}';
};

export type UpdateTenantResponses = {
    /**
     * Changed
     */
    200: TenantResult;
};

export type UpdateTenantResponse = UpdateTenantResponses[keyof UpdateTenantResponses];

export type ListMembersCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{tenant_id}/members';
};

export type ListMembersResponses = {
    /**
     * A page of members
     */
    200: ListMembersResult;
};

export type ListMembersResponse = ListMembersResponses[keyof ListMembersResponses];

export type RemoveMemberCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/members/{user_id}';
};

export type RemoveMemberResponses = {
    /**
     * Removed
     */
    200: MemberRemovedResult;
};

export type RemoveMemberResponse = RemoveMemberResponses[keyof RemoveMemberResponses];

export type UpdateMemberCall = {
    body: UpdateMemberRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/members/{user_id}';
};

export type UpdateMemberResponses = {
    /**
     * Changed
     */
    200: UpdateMemberResult;
};

export type UpdateMemberResponse = UpdateMemberResponses[keyof UpdateMemberResponses];

export type ListInvitationsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{tenant_id}/invitations';
};

export type ListInvitationsResponses = {
    /**
     * A page of invitations
     */
    200: ListInvitationsResult;
};

export type ListInvitationsResponse = ListInvitationsResponses[keyof ListInvitationsResponses];

export type CreateInvitationCall = {
    body: CreateInvitationRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/invitations';
};

export type CreateInvitationResponses = {
    /**
     * Invited
     */
    201: CreateInvitationResult;
};

export type CreateInvitationResponse = CreateInvitationResponses[keyof CreateInvitationResponses];

export type DeleteInvitationCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/invitations/{invitation_id}';
};

export type DeleteInvitationResponses = {
    /**
     * Revoked
     */
    200: InvitationRevokedResult;
};

export type DeleteInvitationResponse = DeleteInvitationResponses[keyof DeleteInvitationResponses];

export type AcceptInvitationCall = {
    body: AcceptInvitationRequest;
    path?: never;
    query?: never;
    url: '/v1/invitations/accept';
};

export type AcceptInvitationResponses = {
    /**
     * Accepted
     */
    200: AcceptInvitationResult;
};

export type AcceptInvitationResponse = AcceptInvitationResponses[keyof AcceptInvitationResponses];

export type SuspendTenantCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/suspend';
};

export type SuspendTenantResponses = {
    /**
     * The tenant as it is now
     */
    200: TenantResult;
};

export type SuspendTenantResponse = SuspendTenantResponses[keyof SuspendTenantResponses];

export type ResumeTenantCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/resume';
};

export type ResumeTenantResponses = {
    /**
     * The tenant as it is now
     */
    200: TenantResult;
};

export type ResumeTenantResponse = ResumeTenantResponses[keyof ResumeTenantResponses];

export type CloseTenantCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/close';
};

export type CloseTenantResponses = {
    /**
     * The tenant as it is now
     */
    200: TenantResult;
};

export type CloseTenantResponse = CloseTenantResponses[keyof CloseTenantResponses];

export type ReopenTenantCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/reopen';
};

export type ReopenTenantResponses = {
    /**
     * The tenant as it is now
     */
    200: TenantResult;
};

export type ReopenTenantResponse = ReopenTenantResponses[keyof ReopenTenantResponses];

export type ListApiKeysCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{tenant_id}/api-keys';
};

export type ListApiKeysResponses = {
    /**
     * A page of keys, without their texts
     */
    200: ListApiKeysResult;
};

export type ListApiKeysResponse = ListApiKeysResponses[keyof ListApiKeysResponses];

export type CreateApiKeyCall = {
    body: CreateApiKeyRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/api-keys';
};

export type CreateApiKeyResponses = {
    /**
     * Created
     */
    201: CreateApiKeyResult;
};

export type CreateApiKeyResponse = CreateApiKeyResponses[keyof CreateApiKeyResponses];

export type RevokeApiKeyCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/api-keys/{key_id}';
};

export type RevokeApiKeyResponses = {
    /**
     * Revoked
     */
    200: RevokeApiKeyResult;
};

export type RevokeApiKeyResponse = RevokeApiKeyResponses[keyof RevokeApiKeyResponses];

export type RotateApiKeyCall = {
    body?: RotateApiKeyRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/api-keys/{key_id}/rotate';
};

export type RotateApiKeyResponses = {
    /**
     * The new key, and the old one with its expiry
     */
    201: RotateApiKeyResult;
};

export type RotateApiKeyResponse = RotateApiKeyResponses[keyof RotateApiKeyResponses];

export type CreateAccessCall = {
    body?: CreateAccessRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/access';
};

export type CreateAccessResponses = {
    /**
     * Created
     */
    201: CreateAccessResult;
};

export type CreateAccessResponse = CreateAccessResponses[keyof CreateAccessResponses];

export type ListAuditCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{tenant_id}/audit';
};

export type ListAuditResponses = {
    /**
     * A page of entries
     */
    200: AuditResult;
};

export type ListAuditResponse = ListAuditResponses[keyof ListAuditResponses];

export type ListUserAuditCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/user/audit';
};

export type ListUserAuditResponses = {
    /**
     * A page of entries
     */
    200: AuditResult;
};

export type ListUserAuditResponse = ListUserAuditResponses[keyof ListUserAuditResponses];

export type SetUpChartCall = {
    body: SetUpChartRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/accounts/setup';
};

export type SetUpChartResponses = {
    /**
     * Existed already
     */
    200: ChartResult;
    /**
     * Created
     */
    201: ChartResult;
};

export type SetUpChartResponse = SetUpChartResponses[keyof SetUpChartResponses];

export type GetHierarchyCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Needs the scope balances:read too.
         */
        include?: 'balances';
        /**
         * Only this account and those below it.
         */
        root?: string;
        /**
         * Levels to show, all by default; 1 is the root, or the top level, alone.
         */
        depth?: number;
        /**
         * Only what counts (`effective_at`) until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.
         */
        as_of?: string;
        /**
         * Only what was recorded until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.
         */
        known_at?: string;
        /**
         * The same by `sequence`, instead of `known_at`: the answer is the same for ever.
         */
        known_sequence?: number;
    };
    url: '/v1/tenants/{slug}/accounts/hierarchy';
};

export type GetHierarchyResponses = {
    /**
     * The root, or the accounts without a parent, each with all accounts below it
     */
    200: GetHierarchyResult;
};

export type GetHierarchyResponse = GetHierarchyResponses[keyof GetHierarchyResponses];

export type ListAccountsCall = {
    body?: never;
    path?: never;
    query?: {
        type?: AccountType;
        status?: AccountStatus;
        /**
         * An unknown code matches nothing.
         */
        parent_code?: string;
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/accounts';
};

export type ListAccountsResponses = {
    /**
     * A page of accounts
     */
    200: ListAccountsResult;
};

export type ListAccountsResponse = ListAccountsResponses[keyof ListAccountsResponses];

export type CreateAccountCall = {
    body: CreateAccountRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/accounts';
};

export type CreateAccountResponses = {
    /**
     * Created
     */
    201: AccountResult;
};

export type CreateAccountResponse = CreateAccountResponses[keyof CreateAccountResponses];

export type CreateAccountsCall = {
    body: CreateAccountsRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/accounts/batch';
};

export type CreateAccountsResponses = {
    /**
     * Every account, in the order of the request, as it is now
     */
    201: AccountsResult;
};

export type CreateAccountsResponse = CreateAccountsResponses[keyof CreateAccountsResponses];

export type GetAccountCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/accounts/code/{account_code}';
};

export type GetAccountResponses = {
    /**
     * The account
     */
    200: AccountResult;
};

export type GetAccountResponse = GetAccountResponses[keyof GetAccountResponses];

export type UpdateAccountCall = {
    body?: UpdateAccountRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/accounts/code/{account_code}';
};

export type UpdateAccountResponses = {
    /**
     * The account after the change
     */
    200: AccountResult;
};

export type UpdateAccountResponse = UpdateAccountResponses[keyof UpdateAccountResponses];

export type ListLimitsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/limits';
};

export type ListLimitsResponses = {
    /**
     * A page of limits
     */
    200: ListLimitsResult;
};

export type ListLimitsResponse = ListLimitsResponses[keyof ListLimitsResponses];

export type CreateLimitCall = {
    body: CreateLimitRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/limits';
};

export type CreateLimitResponses = {
    /**
     * Created
     */
    201: LimitResult;
};

export type CreateLimitResponse = CreateLimitResponses[keyof CreateLimitResponses];

export type DeleteLimitCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/limits/{limit_id}';
};

export type DeleteLimitResponses = {
    /**
     * Deleted
     */
    200: LimitDeletedResult;
};

export type DeleteLimitResponse = DeleteLimitResponses[keyof DeleteLimitResponses];

export type GetLimitCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/limits/{limit_id}';
};

export type GetLimitResponses = {
    /**
     * The limit
     */
    200: LimitResult;
};

export type GetLimitResponse = GetLimitResponses[keyof GetLimitResponses];

export type UpdateLimitCall = {
    body?: UpdateLimitRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/limits/{limit_id}';
};

export type UpdateLimitResponses = {
    /**
     * The limit after the change
     */
    200: LimitResult;
};

export type UpdateLimitResponse = UpdateLimitResponses[keyof UpdateLimitResponses];

export type GetLimitUsageCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Whose use; required where the limit applies to `each` account of a group.
         */
        account_code?: string;
    };
    url: '/v1/tenants/{slug}/limits/{limit_id}/usage';
};

export type GetLimitUsageResponses = {
    /**
     * The usage
     */
    200: GetLimitUsageResult;
};

export type GetLimitUsageResponse = GetLimitUsageResponses[keyof GetLimitUsageResponses];

export type ListTransactionsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Case-sensitive. An unknown code or a group matches nothing.
         */
        account_code?: string;
        currency?: Currency;
        reference?: string;
        idempotency_key?: string;
        kind?: TransactionKind;
        /**
         * Captures of this hold.
         */
        hold_id?: string;
        /**
         * Reversals of this transaction, also of parts of it.
         */
        reverses?: string;
        /**
         * Words of description and reference, at most 16; all must fit. Case and accents are folded, and a trailing `*` is a prefix.
         */
        q?: string;
        /**
         * Only what counts (`effective_at`) from then on: a day of the books’ time zone (its first millisecond), or RFC 3339.
         */
        effective_from?: string;
        /**
         * Only what counts until then: a day (its last millisecond), or RFC 3339.
         */
        effective_to?: string;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
        /**
         * Your own name of the person, for example a customer number. It is kept in Unicode form NFC.
         */
        subject?: string;
        /**
         * A query that was kept under this name; parameters next to it win.
         */
        filter?: string;
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/transactions';
};

export type ListTransactionsResponses = {
    /**
     * A page of transactions
     */
    200: ListTransactionsResult;
};

export type ListTransactionsResponse = ListTransactionsResponses[keyof ListTransactionsResponses];

export type PostSingleCall = {
    body: PostSingleRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions';
};

export type PostSingleResponses = {
    /**
     * Posted by an earlier request with this key, or a dry run
     */
    200: TransactionOrDryRunResult;
    /**
     * Posted
     */
    201: TransactionResult;
};

export type PostSingleResponse = PostSingleResponses[keyof PostSingleResponses];

export type PostDoubleCall = {
    body: PostDoubleRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions/double-entry';
};

export type PostDoubleResponses = {
    /**
     * Posted by an earlier request with this key, or a dry run
     */
    200: TransactionOrDryRunResult;
    /**
     * Posted
     */
    201: TransactionResult;
};

export type PostDoubleResponse = PostDoubleResponses[keyof PostDoubleResponses];

export type PostExchangeCall = {
    body: PostExchangeRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions/exchange';
};

export type PostExchangeResponses = {
    /**
     * Posted by an earlier request with this key, or a dry run
     */
    200: TransactionOrDryRunResult;
    /**
     * Posted
     */
    201: TransactionResult;
};

export type PostExchangeResponse = PostExchangeResponses[keyof PostExchangeResponses];

export type ReverseTransactionCall = {
    body?: ReverseTransactionRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions/{transaction_id}/reverse';
};

export type ReverseTransactionResponses = {
    /**
     * Posted by an earlier request with this key, or a dry run
     */
    200: TransactionOrDryRunResult;
    /**
     * Posted
     */
    201: TransactionResult;
};

export type ReverseTransactionResponse = ReverseTransactionResponses[keyof ReverseTransactionResponses];

export type RedactTransactionCall = {
    body: RedactTransactionRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/transactions/{transaction_id}/redact';
};

export type RedactTransactionResponses = {
    /**
     * The transaction without them
     */
    200: TransactionResult;
};

export type RedactTransactionResponse = RedactTransactionResponses[keyof RedactTransactionResponses];

export type SubmitBatchCall = {
    body: SubmitBatchRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions/batch';
};

export type SubmitBatchResponses = {
    /**
     * Independent items, or an atomic batch that earlier requests had done, or a dry run
     */
    200: BatchOrDryRunResult;
    /**
     * All items of an atomic batch
     */
    201: BatchResult;
};

export type SubmitBatchResponse = SubmitBatchResponses[keyof SubmitBatchResponses];

export type GetTransactionCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/transactions/{transaction_id}';
};

export type GetTransactionResponses = {
    /**
     * The transaction
     */
    200: TransactionResult;
};

export type GetTransactionResponse = GetTransactionResponses[keyof GetTransactionResponses];

export type EraseSubjectCall = {
    body: EraseSubjectRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/subjects/erase';
};

export type EraseSubjectResponses = {
    /**
     * Erased
     */
    200: ErasedSubjectResult;
};

export type EraseSubjectResponse = EraseSubjectResponses[keyof EraseSubjectResponses];

export type ListFiltersCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/filters';
};

export type ListFiltersResponses = {
    /**
     * The filters
     */
    200: ListFiltersResult;
};

export type ListFiltersResponse = ListFiltersResponses[keyof ListFiltersResponses];

export type DeleteFilterCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/filters/{name}';
};

export type DeleteFilterResponses = {
    /**
     * Deleted
     */
    200: DeleteFilterResult;
};

export type DeleteFilterResponse = DeleteFilterResponses[keyof DeleteFilterResponses];

export type PutFilterCall = {
    body: PutFilterRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/filters/{name}';
};

export type PutFilterResponses = {
    /**
     * The filter
     */
    200: PutFilterResult;
};

export type PutFilterResponse = PutFilterResponses[keyof PutFilterResponses];

export type GetVolumeCall = {
    body?: never;
    path?: never;
    query: {
        currency: Currency;
        /**
         * A week begins on Monday.
         */
        interval?: 'day' | 'week' | 'month';
        /**
         * First day, in the books’ time zone.
         */
        from: string;
        /**
         * Last day.
         */
        to: string;
    };
    url: '/v1/tenants/{slug}/statistics/volume';
};

export type GetVolumeResponses = {
    /**
     * A point for each interval
     */
    200: GetVolumeResult;
};

export type GetVolumeResponse = GetVolumeResponses[keyof GetVolumeResponses];

export type ListHoldsCall = {
    body?: never;
    path?: never;
    query?: {
        status?: HoldStatus;
        /**
         * Case-sensitive. An unknown code or a group matches nothing.
         */
        account_code?: string;
        currency?: Currency;
        reference?: string;
        idempotency_key?: string;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
        /**
         * Only holds that expire before then.
         */
        expires_before?: string;
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/holds';
};

export type ListHoldsResponses = {
    /**
     * A page of holds
     */
    200: ListHoldsResult;
};

export type ListHoldsResponse = ListHoldsResponses[keyof ListHoldsResponses];

export type CreateHoldCall = {
    body: CreateHoldRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/holds';
};

export type CreateHoldResponses = {
    /**
     * Held by an earlier request with this key, or a dry run
     */
    200: HoldOrDryRunResult;
    /**
     * Held
     */
    201: HoldResult;
};

export type CreateHoldResponse = CreateHoldResponses[keyof CreateHoldResponses];

export type CaptureHoldCall = {
    body?: CaptureHoldRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/holds/{hold_id}/capture';
};

export type CaptureHoldResponses = {
    /**
     * Captured by an earlier request with this key, or a dry run
     */
    200: CaptureOrDryRunResult;
    /**
     * Captured
     */
    201: CaptureResult;
};

export type CaptureHoldResponse = CaptureHoldResponses[keyof CaptureHoldResponses];

export type VoidHoldCall = {
    body?: VoidHoldRequest;
    path?: never;
    query?: {
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/holds/{hold_id}/void';
};

export type VoidHoldResponses = {
    /**
     * Released, now or before, or a dry run
     */
    200: VoidResult;
};

export type VoidHoldResponse = VoidHoldResponses[keyof VoidHoldResponses];

export type GetHoldCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/holds/{hold_id}';
};

export type GetHoldResponses = {
    /**
     * The hold
     */
    200: HoldResult;
};

export type GetHoldResponse = GetHoldResponses[keyof GetHoldResponses];

export type GetBalanceCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Required unless the account has only one currency.
         */
        currency?: Currency;
        /**
         * Only what counts (`effective_at`) until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.
         */
        as_of?: string;
        /**
         * Only what was recorded until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.
         */
        known_at?: string;
        /**
         * The same by `sequence`, instead of `known_at`: the answer is the same for ever.
         */
        known_sequence?: number;
    };
    url: '/v1/tenants/{slug}/accounts/code/{account_code}/balance';
};

export type GetBalanceResponses = {
    /**
     * The balance
     */
    200: GetBalanceResult;
};

export type GetBalanceResponse = GetBalanceResponses[keyof GetBalanceResponses];

export type ListDailyBalancesCall = {
    body?: never;
    path?: never;
    query: {
        /**
         * Required unless the account has only one currency.
         */
        currency?: Currency;
        /**
         * First day: a day of the books’ time zone, or RFC 3339, whose day is meant.
         */
        from: string;
        /**
         * Last day: a day of the books’ time zone, or RFC 3339, whose day is meant.
         */
        to: string;
        /**
         * Only what was recorded until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.
         */
        known_at?: string;
        /**
         * The same by `sequence`, instead of `known_at`: the answer is the same for ever.
         */
        known_sequence?: number;
    };
    url: '/v1/tenants/{slug}/accounts/code/{account_code}/balance/daily';
};

export type ListDailyBalancesResponses = {
    /**
     * The days
     */
    200: ListDailyBalancesResult;
};

export type ListDailyBalancesResponse = ListDailyBalancesResponses[keyof ListDailyBalancesResponses];

export type ListBalanceHistoryCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Required unless the account has only one currency.
         */
        currency?: Currency;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/accounts/code/{account_code}/balance/history';
};

export type ListBalanceHistoryResponses = {
    /**
     * A page of changes
     */
    200: ListBalanceHistoryResult;
};

export type ListBalanceHistoryResponse = ListBalanceHistoryResponses[keyof ListBalanceHistoryResponses];

export type GetTrialBalanceCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Balances at the end of this day, or at this time; absent: now.
         */
        as_of?: string;
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * `exclude` leaves out closing transactions of year ends and their reversals.
         */
        closing?: ClosingChoice;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Levels of the chart that are shown; deeper ones are folded into their group.
         */
        depth?: number;
        /**
         * Shows accounts without any amount as well.
         */
        zero?: boolean;
        /**
         * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
         */
        columns?: ReportColumns;
        /**
         * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
         */
        compare?: ReportComparison;
        /**
         * How many periods or years are compared.
         */
        count?: number;
        /**
         * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
         */
        group_by?: string;
    };
    url: '/v1/tenants/{slug}/reports/trial-balance';
};

export type GetTrialBalanceResponses = {
    /**
     * The report
     */
    200: TrialBalanceResult;
};

export type GetTrialBalanceResponse = GetTrialBalanceResponses[keyof GetTrialBalanceResponses];

export type StartTrialBalanceCall = {
    body?: StartTrialBalanceRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/trial-balance';
};

export type StartTrialBalanceResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartTrialBalanceResponse = StartTrialBalanceResponses[keyof StartTrialBalanceResponses];

export type GetBalanceSheetCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Balances at the end of this day, or at this time; absent: now.
         */
        as_of?: string;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Levels of the chart that are shown; deeper ones are folded into their group.
         */
        depth?: number;
        /**
         * Shows accounts without any amount as well.
         */
        zero?: boolean;
        /**
         * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
         */
        columns?: ReportColumns;
        /**
         * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
         */
        compare?: ReportComparison;
        /**
         * How many periods or years are compared.
         */
        count?: number;
        /**
         * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
         */
        group_by?: string;
    };
    url: '/v1/tenants/{slug}/reports/balance-sheet';
};

export type GetBalanceSheetResponses = {
    /**
     * The report
     */
    200: BalanceSheetResult;
};

export type GetBalanceSheetResponse = GetBalanceSheetResponses[keyof GetBalanceSheetResponses];

export type StartBalanceSheetCall = {
    body?: StartBalanceSheetRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/balance-sheet';
};

export type StartBalanceSheetResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartBalanceSheetResponse = StartBalanceSheetResponses[keyof StartBalanceSheetResponses];

export type GetIncomeStatementCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Levels of the chart that are shown; deeper ones are folded into their group.
         */
        depth?: number;
        /**
         * Shows accounts without any amount as well.
         */
        zero?: boolean;
        /**
         * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
         */
        columns?: ReportColumns;
        /**
         * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
         */
        compare?: ReportComparison;
        /**
         * How many periods or years are compared.
         */
        count?: number;
        /**
         * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
         */
        group_by?: string;
    };
    url: '/v1/tenants/{slug}/reports/income-statement';
};

export type GetIncomeStatementResponses = {
    /**
     * The report
     */
    200: IncomeStatementResult;
};

export type GetIncomeStatementResponse = GetIncomeStatementResponses[keyof GetIncomeStatementResponses];

export type StartIncomeStatementCall = {
    body?: StartIncomeStatementRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/income-statement';
};

export type StartIncomeStatementResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartIncomeStatementResponse = StartIncomeStatementResponses[keyof StartIncomeStatementResponses];

export type GetCashFlowCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Levels of the chart that are shown; deeper ones are folded into their group.
         */
        depth?: number;
        /**
         * Shows accounts without any amount as well.
         */
        zero?: boolean;
        /**
         * One column for the period, or one for each part of it by the calendar. Balances are split from the beginning of the fiscal year.
         */
        columns?: ReportColumns;
        /**
         * Further columns. `previous_period`: as many whole months before, else days; of `as_of` the end of the month before. `previous_year`: the same days a year before.
         */
        compare?: ReportComparison;
        /**
         * How many periods or years are compared.
         */
        count?: number;
        /**
         * Splits lines by `account.<metadata key>` or, unless the report is a balance sheet, `transaction.<key>` for a key of `indexed_metadata`. At most 100 values.
         */
        group_by?: string;
    };
    url: '/v1/tenants/{slug}/reports/cash-flow';
};

export type GetCashFlowResponses = {
    /**
     * The report
     */
    200: CashFlowResult;
};

export type GetCashFlowResponse = GetCashFlowResponses[keyof GetCashFlowResponses];

export type StartCashFlowCall = {
    body?: StartCashFlowRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/cash-flow';
};

export type StartCashFlowResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartCashFlowResponse = StartCashFlowResponses[keyof StartCashFlowResponses];

export type GetAccountStatementCall = {
    body?: never;
    path?: never;
    query: {
        /**
         * Case-sensitive.
         */
        account_code: string;
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * By the time at which postings count, or at which they were recorded; `from` and `to` are on the same time.
         */
        order?: EntryOrder;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Lines on a page of JSON.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page, with the same parameters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/reports/account-statement';
};

export type GetAccountStatementResponses = {
    /**
     * The report
     */
    200: AccountStatementResult;
};

export type GetAccountStatementResponse = GetAccountStatementResponses[keyof GetAccountStatementResponses];

export type StartAccountStatementCall = {
    body: StartAccountStatementRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/account-statement';
};

export type StartAccountStatementResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartAccountStatementResponse = StartAccountStatementResponses[keyof StartAccountStatementResponses];

export type GetGeneralLedgerCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Accounts, of a group all below it; absent: all.
         */
        account_code?: Array<string>;
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Lines on a page of JSON.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page, with the same parameters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/reports/general-ledger';
};

export type GetGeneralLedgerResponses = {
    /**
     * The report
     */
    200: GeneralLedgerResult;
};

export type GetGeneralLedgerResponse = GetGeneralLedgerResponses[keyof GetGeneralLedgerResponses];

export type StartGeneralLedgerCall = {
    body?: StartGeneralLedgerRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/general-ledger';
};

export type StartGeneralLedgerResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartGeneralLedgerResponse = StartGeneralLedgerResponses[keyof StartGeneralLedgerResponses];

export type GetJournalCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * The first day or time of the period; absent, or before 1970: from the beginning.
         */
        from?: string;
        /**
         * The last day or time of the period; absent: now.
         */
        to?: string;
        /**
         * By the time at which postings count, or at which they were recorded; `from` and `to` are on the same time.
         */
        order?: EntryOrder;
        /**
         * Absent: each currency by itself, never added up.
         */
        currency?: Currency;
        /**
         * Only what was recorded by then; absent: all.
         */
        known_at?: string;
        /**
         * Only what was recorded up to this event: with `as_recorded.sequence` of a report, its figures again.
         */
        known_sequence?: number;
        /**
         * What the answer is. `csv`: a row a line, without totals; amounts are plain numbers, and `'` stands before a text that a spreadsheet would run as a formula. `xlsx`: amounts are numbers to 15 digits, else text; at most 50,000 rows. `pdf`: A4 pages with period, sequence and hash.
         */
        format?: ReportFormat;
        /**
         * Lines on a page of JSON.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page, with the same parameters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/reports/journal';
};

export type GetJournalResponses = {
    /**
     * The report
     */
    200: JournalResult;
};

export type GetJournalResponse = GetJournalResponses[keyof GetJournalResponses];

export type StartJournalCall = {
    body?: StartJournalRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/reports/journal';
};

export type StartJournalResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type StartJournalResponse = StartJournalResponses[keyof StartJournalResponses];

export type GetBooksCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/books';
};

export type GetBooksResponses = {
    /**
     * The books
     */
    200: BooksResult;
};

export type GetBooksResponse = GetBooksResponses[keyof GetBooksResponses];

export type UpdateBooksCall = {
    body?: UpdateBooksRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/books';
};

export type UpdateBooksResponses = {
    /**
     * The books after the change
     */
    200: BooksResult;
};

export type UpdateBooksResponse = UpdateBooksResponses[keyof UpdateBooksResponses];

export type ListJobsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/jobs';
};

export type ListJobsResponses = {
    /**
     * A page of jobs
     */
    200: ListJobsResult;
};

export type ListJobsResponse = ListJobsResponses[keyof ListJobsResponses];

export type DeleteJobCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/jobs/{job_id}';
};

export type DeleteJobResponses = {
    /**
     * Cancelled or removed
     */
    200: DeleteJobResult;
};

export type DeleteJobResponse = DeleteJobResponses[keyof DeleteJobResponses];

export type GetJobCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/jobs/{job_id}';
};

export type GetJobResponses = {
    /**
     * The job
     */
    200: JobResult;
};

export type GetJobResponse = GetJobResponses[keyof GetJobResponses];

export type GetJobResultCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/jobs/{job_id}/result';
};

export type GetJobResultResponses = {
    /**
     * All bytes
     */
    200: Blob | File;
    /**
     * A part of them
     */
    206: Blob | File;
};

export type GetJobResultResponse = GetJobResultResponses[keyof GetJobResultResponses];

export type ExportEventsCall = {
    body?: never;
    path?: never;
    query?: {
        format?: 'ndjson';
        /**
         * Only records after this sequence.
         */
        after_sequence?: number;
    };
    url: '/v1/tenants/{slug}/export/events';
};

export type ExportEventsResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportEventsResponse = ExportEventsResponses[keyof ExportEventsResponses];

export type ExportTransactionsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Case-sensitive. An unknown code or a group matches nothing.
         */
        account_code?: string;
        currency?: Currency;
        reference?: string;
        idempotency_key?: string;
        kind?: TransactionKind;
        /**
         * Captures of this hold.
         */
        hold_id?: string;
        /**
         * Reversals of this transaction, also of parts of it.
         */
        reverses?: string;
        /**
         * Words of description and reference, at most 16; all must fit. Case and accents are folded, and a trailing `*` is a prefix.
         */
        q?: string;
        /**
         * Only what counts (`effective_at`) from then on: a day of the books’ time zone (its first millisecond), or RFC 3339.
         */
        effective_from?: string;
        /**
         * Only what counts until then: a day (its last millisecond), or RFC 3339.
         */
        effective_to?: string;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
        /**
         * A query that was kept under this name; parameters next to it win.
         */
        filter?: string;
        format?: ExportFormat;
        /**
         * Only records after this sequence.
         */
        after_sequence?: number;
    };
    url: '/v1/tenants/{slug}/export/transactions';
};

export type ExportTransactionsResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportTransactionsResponse = ExportTransactionsResponses[keyof ExportTransactionsResponses];

export type ExportEntriesCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Case-sensitive. An unknown code or a group matches nothing.
         */
        account_code?: string;
        currency?: Currency;
        reference?: string;
        idempotency_key?: string;
        kind?: TransactionKind;
        /**
         * Captures of this hold.
         */
        hold_id?: string;
        /**
         * Reversals of this transaction, also of parts of it.
         */
        reverses?: string;
        /**
         * Words of description and reference, at most 16; all must fit. Case and accents are folded, and a trailing `*` is a prefix.
         */
        q?: string;
        /**
         * Only what counts (`effective_at`) from then on: a day of the books’ time zone (its first millisecond), or RFC 3339.
         */
        effective_from?: string;
        /**
         * Only what counts until then: a day (its last millisecond), or RFC 3339.
         */
        effective_to?: string;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
        /**
         * A query that was kept under this name; parameters next to it win.
         */
        filter?: string;
        format?: ExportFormat;
        /**
         * Only records after this sequence.
         */
        after_sequence?: number;
    };
    url: '/v1/tenants/{slug}/export/entries';
};

export type ExportEntriesResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportEntriesResponse = ExportEntriesResponses[keyof ExportEntriesResponses];

export type ExportAccountsCall = {
    body?: never;
    path?: never;
    query?: {
        format?: ExportFormat;
    };
    url: '/v1/tenants/{slug}/export/accounts';
};

export type ExportAccountsResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportAccountsResponse = ExportAccountsResponses[keyof ExportAccountsResponses];

export type ExportBalancesCall = {
    body?: never;
    path?: never;
    query?: {
        format?: ExportFormat;
    };
    url: '/v1/tenants/{slug}/export/balances';
};

export type ExportBalancesResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportBalancesResponse = ExportBalancesResponses[keyof ExportBalancesResponses];

export type ExportEverythingCall = {
    body?: never;
    path?: never;
    query?: {
        format?: 'ndjson';
    };
    url: '/v1/tenants/{slug}/export/everything';
};

export type ExportEverythingResponses = {
    /**
     * The records
     */
    200: string;
};

export type ExportEverythingResponse = ExportEverythingResponses[keyof ExportEverythingResponses];

export type ClosePeriodCall = {
    body: ClosePeriodRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/periods/close';
};

export type ClosePeriodResponses = {
    /**
     * It was closed so already
     */
    200: PeriodResult;
    /**
     * Closed
     */
    201: PeriodResult;
};

export type ClosePeriodResponse = ClosePeriodResponses[keyof ClosePeriodResponses];

export type ReopenPeriodCall = {
    body: ReopenPeriodRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/periods/reopen';
};

export type ReopenPeriodResponses = {
    /**
     * It was reopened so already
     */
    200: PeriodResult;
    /**
     * Reopened
     */
    201: PeriodResult;
};

export type ReopenPeriodResponse = ReopenPeriodResponses[keyof ReopenPeriodResponses];

export type ListPeriodsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page of this list, with the same filters.
         */
        cursor?: string;
    };
    url: '/v1/tenants/{slug}/periods';
};

export type ListPeriodsResponses = {
    /**
     * A page of periods
     */
    200: ListPeriodsResult;
};

export type ListPeriodsResponse = ListPeriodsResponses[keyof ListPeriodsResponses];

export type ListEventsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Only events after this sequence.
         */
        after_sequence?: number;
        /**
         * Items on a page.
         */
        limit?: number;
    };
    url: '/v1/tenants/{slug}/events';
};

export type ListEventsResponses = {
    /**
     * A page of events
     */
    200: ListEventsResult;
};

export type ListEventsResponse = ListEventsResponses[keyof ListEventsResponses];

export type StreamEventsCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Only events after this sequence. The header `Last-Event-ID` wins.
         */
        after_sequence?: number;
        /**
         * Types of events, with commas between; all of the log by default. `balance.updated` and `hold.captured` are sent only if named. One or more of transaction.posted, balance.updated, account.created, account.updated, hold.created, hold.captured, hold.voided, hold.expired, definition.changed, books.updated, period.closed, period.reopened, subject.erased, transaction.redacted, log.imported, books.unfrozen.
         */
        types?: string;
    };
    url: '/v1/tenants/{slug}/events/stream';
};

export type StreamEventsResponses = {
    /**
     * Events until either side ends the stream
     */
    200: string;
};

export type StreamEventsResponse = StreamEventsResponses[keyof StreamEventsResponses];

export type GetTransactionProofCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * `tlog-proof`: the text of https://c2sp.org/tlog-proof.
         */
        format?: ProofFormat;
    };
    url: '/v1/tenants/{slug}/transactions/{transaction_id}/proof';
};

export type GetTransactionProofResponses = {
    /**
     * The proof
     */
    200: ProofResult;
};

export type GetTransactionProofResponse = GetTransactionProofResponses[keyof GetTransactionProofResponses];

export type GetEventProofCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * `tlog-proof`: the text of https://c2sp.org/tlog-proof.
         */
        format?: ProofFormat;
    };
    url: '/v1/tenants/{slug}/events/{sequence}/proof';
};

export type GetEventProofResponses = {
    /**
     * The proof
     */
    200: ProofResult;
};

export type GetEventProofResponse = GetEventProofResponses[keyof GetEventProofResponses];

export type GetConsistencyCall = {
    body?: never;
    path?: never;
    query: {
        /**
         * Size of the earlier tree.
         */
        old: number;
        /**
         * Size of the later tree, at most that of the newest checkpoint.
         */
        new: number;
    };
    url: '/v1/tenants/{slug}/tlog/consistency';
};

export type GetConsistencyResponses = {
    /**
     * The proof
     */
    200: GetConsistencyResult;
};

export type GetConsistencyResponse = GetConsistencyResponses[keyof GetConsistencyResponses];

export type ListCheckpointKeysCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/tlog/keys';
};

export type ListCheckpointKeysResponses = {
    /**
     * The keys, first the one that signs
     */
    200: ListCheckpointKeysResult;
};

export type ListCheckpointKeysResponse = ListCheckpointKeysResponses[keyof ListCheckpointKeysResponses];

export type GetCheckpointCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/tlog/checkpoint';
};

export type GetCheckpointResponses = {
    /**
     * The checkpoint
     */
    200: string;
};

export type GetCheckpointResponse = GetCheckpointResponses[keyof GetCheckpointResponses];

export type GetTileEntriesCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/tlog/tile/entries/{tile}';
};

export type GetTileEntriesResponses = {
    /**
     * Entries
     */
    200: Blob | File;
};

export type GetTileEntriesResponse = GetTileEntriesResponses[keyof GetTileEntriesResponses];

export type GetTileCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/tlog/tile/{level}/{tile}';
};

export type GetTileResponses = {
    /**
     * Hashes
     */
    200: Blob | File;
};

export type GetTileResponse = GetTileResponses[keyof GetTileResponses];

export type ListDeliveriesCall = {
    body?: never;
    path?: never;
    query?: {
        /**
         * Items on a page.
         */
        limit?: number;
        /**
         * Deliveries to skip.
         */
        offset?: number;
        event_type?: WebhookEventType;
        status?: DeliveryStatus;
        /**
         * Only those of this event.
         */
        event_id?: string;
        /**
         * Only those of this transaction: of its event, the balances that it updated, and the hold that it captured.
         */
        transaction_id?: string;
        /**
         * From 00:00 UTC of this day.
         */
        start_date?: string;
        /**
         * Up to, not including, 00:00 UTC of this day.
         */
        end_date?: string;
    };
    url: '/v1/tenants/{slug}/webhooks';
};

export type ListDeliveriesResponses = {
    /**
     * A page of deliveries, and their total number
     */
    200: ListDeliveriesResult;
};

export type ListDeliveriesResponse = ListDeliveriesResponses[keyof ListDeliveriesResponses];

export type ConfigureWebhookCall = {
    body: ConfigureWebhookRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks';
};

export type ConfigureWebhookResponses = {
    /**
     * Replaced; the secret is null unless a new one was sent
     */
    200: WebhookConfigResult;
    /**
     * Configured for the first time; the secret is shown only now
     */
    201: WebhookConfigResult;
};

export type ConfigureWebhookResponse = ConfigureWebhookResponses[keyof ConfigureWebhookResponses];

export type DeleteWebhookCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/config';
};

export type DeleteWebhookResponses = {
    /**
     * Deleted
     */
    200: WebhookDeletedResult;
};

export type DeleteWebhookResponse = DeleteWebhookResponses[keyof DeleteWebhookResponses];

export type GetWebhookCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/config';
};

export type GetWebhookResponses = {
    /**
     * The configuration without its secret and the values of its headers
     */
    200: GetWebhookResult;
};

export type GetWebhookResponse = GetWebhookResponses[keyof GetWebhookResponses];

export type UpdateWebhookCall = {
    body?: UpdateWebhookRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/config';
};

export type UpdateWebhookResponses = {
    /**
     * Changed; the secret is null unless a new one was sent
     */
    200: WebhookConfigResult;
};

export type UpdateWebhookResponse = UpdateWebhookResponses[keyof UpdateWebhookResponses];

export type RotateWebhookSecretCall = {
    body?: RotateWebhookSecretRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/secret/rotate';
};

export type RotateWebhookSecretResponses = {
    /**
     * The new secret, shown only now
     */
    200: WebhookConfigResult;
};

export type RotateWebhookSecretResponse = RotateWebhookSecretResponses[keyof RotateWebhookSecretResponses];

export type TestWebhookCall = {
    body?: TestWebhookRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/test';
};

export type TestWebhookResponses = {
    /**
     * The receiver accepted it
     */
    200: TestWebhookResult;
};

export type TestWebhookResponse = TestWebhookResponses[keyof TestWebhookResponses];

export type RetryDeliveriesCall = {
    body?: RetryDeliveriesRequest;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/retry';
};

export type RetryDeliveriesResponses = {
    /**
     * Queued
     */
    202: RetryDeliveriesResult;
};

export type RetryDeliveriesResponse = RetryDeliveriesResponses[keyof RetryDeliveriesResponses];

export type GetDeliveryCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/{delivery_id}';
};

export type GetDeliveryResponses = {
    /**
     * The delivery
     */
    200: GetDeliveryResult;
};

export type GetDeliveryResponse = GetDeliveryResponses[keyof GetDeliveryResponses];

export type RetryDeliveryCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/v1/tenants/{slug}/webhooks/{delivery_id}/retry';
};

export type RetryDeliveryResponses = {
    /**
     * Queued
     */
    202: RetryDeliveryResult;
};

export type RetryDeliveryResponse = RetryDeliveryResponses[keyof RetryDeliveryResponses];

export type GetHealthCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/healthz';
};

export type GetHealthResponses = {
    /**
     * It runs
     */
    200: GetHealthResult;
};

export type GetHealthResponse = GetHealthResponses[keyof GetHealthResponses];

export type GetReadinessCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/readyz';
};

export type GetReadinessResponses = {
    /**
     * They can; `degraded`: another dependency is not available
     */
    200: ReadinessResult;
};

export type GetReadinessResponse = GetReadinessResponses[keyof GetReadinessResponses];

export type GetMetricsCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/metrics';
};

export type GetMetricsResponses = {
    /**
     * Metrics
     */
    200: string;
};

export type GetMetricsResponse = GetMetricsResponses[keyof GetMetricsResponses];

export type GetKeySetCall = {
    body?: never;
    path?: never;
    query?: never;
    url: '/.well-known/jwks.json';
};

export type GetKeySetResponses = {
    /**
     * A JSON Web Key Set (RFC 7517)
     */
    200: GetKeySetResult;
};

export type GetKeySetResponse = GetKeySetResponses[keyof GetKeySetResponses];

export type ImportLogCall = {
    /**
     * An export of events.
     */
    body: string;
    path?: never;
    query?: never;
    url: '/v1/tenants/{tenant_id}/import';
};

export type ImportLogResponses = {
    /**
     * Queued
     */
    202: JobResult;
};

export type ImportLogResponse = ImportLogResponses[keyof ImportLogResponses];

export type ImportTransactionsCall = {
    /**
     * Items of a batch, one a line.
     */
    body: string;
    path?: never;
    query?: {
        /**
         * true: nothing is sent after a chunk in which a line has failed.
         */
        stop_on_error?: boolean;
        /**
         * Which lines are reported.
         */
        results?: 'failed' | 'all';
        /**
         * true: decided by the real rules on the real books, and not posted.
         */
        dry_run?: boolean;
    };
    url: '/v1/tenants/{slug}/transactions/import';
};

export type ImportTransactionsResponses = {
    /**
     * One JSON object a line.
     */
    200: string;
};

export type ImportTransactionsResponse = ImportTransactionsResponses[keyof ImportTransactionsResponses];
