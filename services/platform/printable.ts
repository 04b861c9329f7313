// Which characters a key or a secret may contain: two that look the same must be the same.

// No control, format, private or unassigned characters, and no line or paragraph separators.
/** Only printable characters; may be empty. */
export const printable = /^[^\p{C}\p{Zl}\p{Zp}]*$/u;

/** The same, without a blank at either end. */
export const printableTrimmed = /^(?!\p{Z})(?!.*\p{Z}$)[^\p{C}\p{Zl}\p{Zp}]*$/u;
