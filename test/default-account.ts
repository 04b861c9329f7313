// An asset account made with only a code, a name and a type, as rows, events and answers show it.
/** Without id, code, name, version, times and metadata. */
export const plainAsset = {
  type: 'asset',
  normal_balance: 'debit',
  currency: null,
  parent_code: null,
  is_group: false,
  description: null,
  allow_negative: true,
  status: 'active',
  system: false,
};
