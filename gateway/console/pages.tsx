// The pages of a tenant: their paths, their places in the navigation, and their chunks.
import { lazy, type ComponentType } from 'react';
import type { IconName } from './parts/icons.tsx';
import { words } from './words.ts';

/** A page of a tenant. */
export interface TenantPage {
  /** Below `/t/<slug>`; parameters begin with a colon. */
  path: string;
  page: ComponentType;
}

/** A link of the navigation. */
export interface NavigationItem {
  path: string;
  label: string;
  icon: IconName;
  /** Goes there after `g`. */
  shortcut: string;
}

/** Loads a page when it is first shown. */
function load<Name extends string>(module: () => Promise<Record<Name, ComponentType>>, name: Name): ComponentType {
  return lazy<ComponentType>(async () => ({ default: (await module())[name] }));
}

/** All pages. The first that fits is shown. */
export const tenantPages: TenantPage[] = [
  { path: '/', page: load(() => import('./pages/overview.tsx'), 'OverviewPage') },
  { path: '/accounts', page: load(() => import('./pages/accounts.tsx'), 'AccountsPage') },
];

/** The navigation, by group. */
export const navigation: { label: string; items: NavigationItem[] }[] = [
  {
    label: words.nav.ledger,
    items: [
      { path: '/', label: words.nav.overview, icon: 'overview', shortcut: 'o' },
      { path: '/accounts', label: words.nav.accounts, icon: 'accounts', shortcut: 'a' },
    ],
  },
];
