// Starts the console in the browser: the session, then the pages for those with and without one.
import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query';
import { StrictMode, Suspense, useEffect, useState, useSyncExternalStore, type ReactElement, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { I18nProvider, RouterProvider } from 'react-aria-components';
import { Redirect, Route, Router, Switch, useLocation, useSearchParams } from 'wouter';
import { consolePath } from './base.ts';
import { useHref } from './parts/links.ts';
import { Loaded, Loading, ProblemView } from './parts/problem.tsx';
import { Toasts } from './parts/toast.tsx';
import { Gate } from './pages/gate.tsx';
import { FirstTenantPage } from './pages/first-tenant.tsx';
import { ForgotPage } from './pages/forgot.tsx';
import { LoginPage } from './pages/login.tsx';
import { RegisterPage } from './pages/register.tsx';
import { ledger, restore, session, type Session } from './session.ts';
import { Shell } from './shell.tsx';
import { showTheme } from './theme.ts';
import { words } from './words.ts';

// The client of the API tries again by itself, with the same key.
const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: 2_000 }, mutations: { retry: false } } });

// What one user has read is not for the next. Before any page is drawn again.
let userId: string | undefined;
session.subscribe(() => {
  const next = session.read()?.user.id;
  if (next !== userId) client.clear();
  userId = next;
});

/** Lets links of all parts, rows and menus too, go through the router. */
function Links({ children }: { children: ReactNode }): ReactElement {
  const [, navigate] = useLocation();
  return (
    <RouterProvider navigate={navigate} useHref={useHref}>
      {children}
    </RouterProvider>
  );
}

function App(): ReactElement {
  const current = useSyncExternalStore(session.subscribe, session.read);
  const [error, setError] = useState<unknown>();
  const start = (): void => {
    setError(undefined);
    restore().catch(setError);
  };
  useEffect(start, []);
  if (!isSecureContext) return <Gate title={words.session.insecure} lead={words.session.insecureHint} />;
  if (current === undefined)
    return error === undefined ? (
      <Loading />
    ) : (
      <Gate title={words.session.unreachable}>
        <ProblemView error={error} retry={start} />
      </Gate>
    );
  return current === null ? <LoggedOut /> : <LoggedIn key={current.user.id} current={current} />;
}

function LoggedOut(): ReactElement {
  const [path] = useLocation();
  const next = path === '/' ? '' : `?next=${encodeURIComponent(path + location.search)}`;
  return (
    <Switch>
      <Route path="/login" component={LoginPage} />
      <Route path="/register" component={RegisterPage} />
      <Route path="/forgot" component={ForgotPage} />
      <Route>
        <Redirect to={`/login${next}`} replace />
      </Route>
    </Switch>
  );
}

function LoggedIn({ current }: { current: Session }): ReactElement {
  const tenants = useQuery({ queryKey: ['tenants'], queryFn: () => ledger.tenants.list({ limit: 100 }).all(1_000) });
  const [parameters] = useSearchParams();
  return (
    <Loaded query={tenants}>
      {(all) => {
        const next = parameters.get('next');
        const first = all.find(({ status }) => status === 'active') ?? all[0];
        const start = next?.startsWith('/t/') ? next : first ? `/t/${first.slug}` : '/new-tenant';
        return (
          <Switch>
            <Route path="/new-tenant" component={FirstTenantPage} />
            <Route path="/t/:slug" nest>
              {({ slug }) => (
                <Links>
                  <Shell key={slug} session={current} tenants={all} slug={slug} />
                </Links>
              )}
            </Route>
            <Route>
              <Redirect to={start} replace />
            </Route>
          </Switch>
        );
      }}
    </Loaded>
  );
}

showTheme();
// Its address in the page is relative, and the page's own changes.
document.querySelector<HTMLLinkElement>('link[rel=icon]')?.setAttribute('href', `${consolePath}/icon.svg`);
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <I18nProvider>
      <QueryClientProvider client={client}>
        <Router base={consolePath}>
          <Links>
            <Suspense fallback={<Loading />}>
              <App />
            </Suspense>
            <Toasts />
          </Links>
        </Router>
      </QueryClientProvider>
    </I18nProvider>
  </StrictMode>,
);
