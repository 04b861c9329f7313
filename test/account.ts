// An account that was made with a code, a name and a type alone, as rows, events and answers tell it.
/** All but what is its own: identity, code, name, version, times and metadata. */
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
