// What surrounds every page of a tenant: navigation, search, the tenant and the user.
import { useQuery } from '@tanstack/react-query';
import { Suspense, useCallback, useMemo, useState, type ReactElement, type ReactNode } from 'react';
import { Link, Route, Switch, useLocation, useRoute } from 'wouter';
import type { Tenant } from '../clients/typescript/ledger.ts';
import { navigation, tenantPages } from './pages.tsx';
import { Button, LinkButton, MenuButton } from './parts/button.tsx';
import { Dialog } from './parts/dialog.tsx';
import { Icon, Mark } from './parts/icons.tsx';
import { outside, useGo } from './parts/links.ts';
import { useIsNarrow, useIsOnline } from './parts/media.ts';
import { Loaded, Loading } from './parts/problem.tsx';
import { formatDay } from './parts/time.tsx';
import { toast, toastError } from './parts/toast.tsx';
import { NotFoundPage } from './pages/not-found.tsx';
import { PageBoundary } from './boundary.tsx';
import { Gate } from './pages/gate.tsx';
import { SearchDialog } from './search.tsx';
import { accessTo, ledger, ledgerOf, logOut, type Session } from './session.ts';
import { ShortcutList, useShortcuts } from './shortcuts.tsx';
import { TenantProvider, useRead, useTenant } from './tenant.tsx';
import { chooseTheme, readTheme, type Theme } from './theme.ts';
import { words } from './words.ts';

/** The pages of one tenant. */
export function Shell({ session, tenants, slug }: { session: Session; tenants: Tenant[]; slug: string }): ReactElement {
  const tenant = tenants.find((each) => each.slug === slug);
  const access = useQuery({
    queryKey: [slug, 'access'],
    queryFn: () => accessTo(slug),
    enabled: tenant !== undefined,
    refetchInterval: 60_000,
  });
  const scopes = access.data?.scopes;
  const context = useMemo(() => tenant && { tenant, ledger: ledgerOf(slug), scopes: new Set(scopes) }, [tenant, slug, scopes]);
  const isNarrow = useIsNarrow();
  const [open, setOpen] = useState<'search' | 'help' | 'navigation'>();
  const close = useCallback(() => setOpen(undefined), []);
  useShortcuts({ onSearch: useCallback(() => setOpen('search'), []), onHelp: useCallback(() => setOpen('help'), []) });
  if (!context)
    return (
      <Gate title={words.noTenant} lead={words.noTenantHint}>
        <LinkButton href={outside('/')}>{words.toOverview}</LinkButton>
      </Gate>
    );
  const rail = <Navigation tenants={tenants} tenant={context.tenant} onGo={close} />;
  return (
    <TenantProvider value={context}>
      <a className="skip" href="#content">
        {words.skip}
      </a>
      <div className="shell">
        {!isNarrow && <aside aria-label={words.nav.label}>{rail}</aside>}
        <div className="main">
          <header className="topbar">
            {isNarrow && <Button kind="quiet" icon="menu" label={words.nav.open} onPress={() => setOpen('navigation')} />}
            {isNarrow ? (
              <Button kind="quiet" icon="search" label={words.search.open} onPress={() => setOpen('search')} />
            ) : (
              <Button kind="quiet" icon="search" onPress={() => setOpen('search')}>
                {words.search.open} <kbd>/</kbd>
              </Button>
            )}
            <span className="space" />
            <LinkButton kind="primary" icon="add" href="/post">
              {words.nav.post}
            </LinkButton>
            <UserMenu session={session} onHelp={() => setOpen('help')} />
          </header>
          <Banners session={session} />
          <main id="content" tabIndex={-1}>
            <Loaded query={access}>{() => <Pages />}</Loaded>
          </main>
        </div>
      </div>
      <SearchDialog isOpen={open === 'search'} onClose={close} />
      <ShortcutList isOpen={open === 'help'} onClose={close} />
      <Dialog title={words.nav.label} place="side" isOpen={open === 'navigation' && isNarrow} onClose={close}>
        {rail}
      </Dialog>
    </TenantProvider>
  );
}

function Pages(): ReactElement {
  const [path] = useLocation();
  return (
    <PageBoundary key={path}>
      <Suspense fallback={<Loading />}>
        <Switch>
          {tenantPages.map(({ path: pattern, page }) => (
            <Route key={pattern} path={pattern} component={page} />
          ))}
          <Route component={NotFoundPage} />
        </Switch>
      </Suspense>
    </PageBoundary>
  );
}

function Navigation({ tenants, tenant, onGo }: { tenants: Tenant[]; tenant: Tenant; onGo: () => void }): ReactElement {
  const others = tenants.map(({ slug, name }) => ({ label: name, href: outside(`/t/${slug}`) }));
  return (
    <div className="rail">
      <div className="brand">
        <Mark /> {words.product}
      </div>
      <div className="tenant">
        <MenuButton
          kind="quiet"
          items={[...others, { label: words.nav.newTenant, href: outside('/new-tenant') }]}
          label={`${words.nav.tenant}: ${tenant.name}`}
        >
          <span className="tenant-name">{tenant.name}</span>
        </MenuButton>
        <small>
          {tenant.slug} · {tenant.role}
        </small>
      </div>
      <nav aria-label={words.nav.pages}>
        {navigation.map(({ label, items }) => (
          <div key={label} className="rail-group">
            <h2>{label}</h2>
            {items.map((item) => (
              <NavigationLink key={item.path} {...item} onGo={onGo} />
            ))}
          </div>
        ))}
      </nav>
    </div>
  );
}

function NavigationLink({
  path,
  label,
  icon,
  onGo,
}: {
  path: string;
  label: string;
  icon: Parameters<typeof Icon>[0]['name'];
  onGo: () => void;
}): ReactElement {
  const [isHere] = useRoute(path === '/' ? '/' : `${path}/*?`);
  return (
    <Link href={path} className={isHere ? 'rail-link here' : 'rail-link'} aria-current={isHere ? 'page' : undefined} onClick={onGo}>
      <Icon name={icon} /> {label}
    </Link>
  );
}

const themes = Object.keys(words.nav.themes) as Theme[];

function UserMenu({ session: { user }, onHelp }: { session: Session; onHelp: () => void }): ReactElement {
  const [theme, setTheme] = useState(readTheme);
  const go = useGo();
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'system';
  const choose = (): void => {
    chooseTheme(next);
    setTheme(next);
  };
  const items = [
    { label: words.nav.settings, onAction: () => go('/settings') },
    { label: words.nav.theme(words.nav.themes[theme]), onAction: choose },
    { label: words.nav.shortcuts, onAction: onHelp },
    { label: words.nav.logOut, onAction: () => void logOut().catch(toastError) },
  ];
  return (
    <MenuButton kind="quiet" items={items} label={`${words.nav.user}: ${user.first_name} ${user.last_name}`}>
      <span className="user-name">{user.first_name}</span>
    </MenuButton>
  );
}

// A session that ends elsewhere ends here within five seconds.
const sessionCheckMs = 4_000;

function Banners({ session }: { session: Session }): ReactNode {
  const isOnline = useIsOnline();
  const { status, delete_at: end } = useTenant().tenant;
  const { data } = useQuery({ queryKey: ['user'], queryFn: () => ledger.user.get(), refetchInterval: sessionCheckMs });
  const books = useRead(['books'], (of, options) => of.books.get(options), { everyMs: 60_000 });
  const { email, email_verified: isVerified } = data?.user ?? session.user;
  const send = async (): Promise<void> => {
    await ledger.auth.sendVerification();
    toast(words.verifyEmail.sent);
  };
  return (
    <>
      {!isOnline && (
        <p className="banner warn" role="status">
          <Icon name="warning" /> {words.offlineBanner}
        </p>
      )}
      {status !== 'active' && (
        <p className="banner warn" role="status">
          <Icon name="warning" />{' '}
          {status === 'closed' ? words.tenantStatus.closed(end === null ? '–' : formatDay(end.slice(0, 10))) : words.tenantStatus.suspended}
        </p>
      )}
      {books.data?.books.frozen && (
        <p className="banner warn" role="status">
          <Icon name="warning" /> {words.tenantStatus.frozen} <Link href="/verification">{words.tenantStatus.frozenWhy}</Link>
        </p>
      )}
      {!isVerified && (
        <p className="banner" role="status">
          <span>
            <strong>{words.verifyEmail.banner(email)}</strong> <span className="optional">{words.verifyEmail.why}</span>
          </span>
          <Button kind="quiet" onPress={() => void send().catch(toastError)}>
            {words.verifyEmail.send}
          </Button>
        </p>
      )}
    </>
  );
}
