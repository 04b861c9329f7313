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
  { path: '/accounts/:code', page: load(() => import('./pages/account.tsx'), 'AccountPage') },
  { path: '/post', page: load(() => import('./pages/post.tsx'), 'PostPage') },
  { path: '/transactions', page: load(() => import('./pages/transactions.tsx'), 'TransactionsPage') },
  { path: '/transactions/:id', page: load(() => import('./pages/transaction.tsx'), 'TransactionPage') },
  { path: '/holds', page: load(() => import('./pages/holds.tsx'), 'HoldsPage') },
  { path: '/holds/:id', page: load(() => import('./pages/hold.tsx'), 'HoldPage') },
  { path: '/reports', page: load(() => import('./pages/reports.tsx'), 'ReportsPage') },
  { path: '/reports/:report', page: load(() => import('./pages/report.tsx'), 'ReportPage') },
  { path: '/periods', page: load(() => import('./pages/periods.tsx'), 'PeriodsPage') },
  { path: '/webhooks', page: load(() => import('./pages/webhooks.tsx'), 'WebhooksPage') },
  { path: '/webhooks/:id', page: load(() => import('./pages/delivery.tsx'), 'DeliveryPage') },
  { path: '/events', page: load(() => import('./pages/events.tsx'), 'EventsPage') },
  { path: '/events/:sequence', page: load(() => import('./pages/event.tsx'), 'EventPage') },
  { path: '/keys', page: load(() => import('./pages/keys.tsx'), 'KeysPage') },
  { path: '/members', page: load(() => import('./pages/members.tsx'), 'MembersPage') },
  { path: '/verification', page: load(() => import('./pages/verification.tsx'), 'VerificationPage') },
  { path: '/settings', page: load(() => import('./pages/settings.tsx'), 'SettingsPage') },
];

/** The navigation, by group. */
export const navigation: { label: string; items: NavigationItem[] }[] = [
  {
    label: words.nav.ledger,
    items: [
      { path: '/', label: words.nav.overview, icon: 'overview', shortcut: 'o' },
      { path: '/accounts', label: words.nav.accounts, icon: 'accounts', shortcut: 'a' },
      { path: '/transactions', label: words.nav.transactions, icon: 'transactions', shortcut: 't' },
      { path: '/holds', label: words.nav.holds, icon: 'holds', shortcut: 'h' },
    ],
  },
  {
    label: words.nav.books,
    items: [
      { path: '/reports', label: words.nav.reports, icon: 'reports', shortcut: 'r' },
      { path: '/periods', label: words.nav.periods, icon: 'periods', shortcut: 'p' },
      { path: '/verification', label: words.nav.verification, icon: 'verification', shortcut: 'v' },
    ],
  },
  {
    label: words.nav.developers,
    items: [
      { path: '/webhooks', label: words.nav.webhooks, icon: 'webhooks', shortcut: 'w' },
      { path: '/events', label: words.nav.events, icon: 'events', shortcut: 'e' },
      { path: '/keys', label: words.nav.keys, icon: 'keys', shortcut: 'k' },
    ],
  },
  {
    label: words.nav.tenant,
    items: [
      { path: '/members', label: words.nav.members, icon: 'members', shortcut: 'm' },
      { path: '/settings', label: words.nav.settings, icon: 'settings', shortcut: 's' },
    ],
  },
];
