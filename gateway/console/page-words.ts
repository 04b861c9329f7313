// Texts of the console's pages in English, by page; those of the shell are in `words.ts`.
import { ledgerTexts } from './words-ledger.ts';
import { tenantTexts } from './words-tenant.ts';

/** The texts. */
export const texts = { ...ledgerTexts, ...tenantTexts };
