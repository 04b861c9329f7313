// The frame of the pages before a tenant: the mark of the product next to one form.
import { useEffect, type ReactElement, type ReactNode } from 'react';
import { Mark } from '../parts/icons.tsx';
import { words } from '../words.ts';

/** A page with one form, or one message. */
export function Gate({ title, lead, children }: { title: string; lead?: ReactNode; children?: ReactNode }): ReactElement {
  useEffect(() => {
    document.title = `${title} · ${words.product}`;
  }, [title]);
  return (
    <div className="gate">
      <aside className="gate-side">
        <div className="brand">
          <Mark /> {words.product}
        </div>
        <ul className="claims">
          {words.login.claims.map((claim) => (
            <li key={claim}>{claim}</li>
          ))}
        </ul>
      </aside>
      <main className="gate-main">
        <h1>{title}</h1>
        {lead !== undefined && <p className="page-lead">{lead}</p>}
        {children}
      </main>
    </div>
  );
}
