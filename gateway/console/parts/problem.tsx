// What a page shows instead of its content: loading, nothing yet, an error with its code and request id.
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactElement, ReactNode } from 'react';
import type { LedgerError } from '../../clients/typescript/ledger.ts';
import { words } from '../words.ts';
import { Button } from './button.tsx';
import { Icon } from './icons.tsx';

/** An error for people. */
export interface Problem {
  /** 0: no answer. */
  status: number;
  code: string;
  message: string;
  requestId: string;
  /** What is wrong with each field of the request. */
  errors: { field: string; message: string }[];
}

/** What is known of an error: of the API, of the network, or of the console itself. */
export function problemOf(error: unknown): Problem {
  const { status = 0, code = '', message = String(error), requestId = '', details, errors } = error as Partial<LedgerError>;
  // A rule of the books names one field, a malformed request all of them.
  const ruled = details?.field === undefined ? [] : [{ field: details.field, message }];
  const isOffline = error instanceof TypeError && status === 0;
  return { status, code, message: isOffline ? words.offline : message, requestId, errors: errors ?? ruled };
}

/** An error, with what helps to report it. `isInline`: within a form. */
export function ProblemView({ error, retry }: { error: unknown; retry?: () => void }): ReactElement {
  const { status, code, message, requestId, errors } = problemOf(error);
  return (
    <div className="problem" role="alert">
      <Icon name={status === 403 ? 'lock' : 'warning'} />
      <div>
        <p className="problem-message">{message}</p>
        {errors
          .filter((each) => each.message !== message)
          .map((each) => (
            <p key={each.field}>{each.message}</p>
          ))}
        <p className="problem-facts">
          {status !== 0 && <span>{status}</span>}
          {code !== '' && <code>{code}</code>}
          {requestId !== '' && (
            <span>
              {words.request} <code>{requestId}</code>
            </span>
          )}
        </p>
      </div>
      {retry && status !== 403 && <Button onPress={retry}>{words.tryAgain}</Button>}
    </div>
  );
}

/** A place where something will be, with the next step. */
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }): ReactElement {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children !== undefined && <p>{children}</p>}
      {action}
    </div>
  );
}

/** While something is loaded: empty lines, so that nothing jumps when it has come. */
export function Loading({ lines = 6 }: { lines?: number }): ReactElement {
  return (
    <div className="loading" role="status" aria-label={words.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}

/** Shows a query: loading, its error, or its data; data that could not be renewed is marked as stale. */
export function Loaded<Data>({
  query,
  lines,
  children,
}: {
  query: UseQueryResult<Data>;
  lines?: number;
  children: (data: Data) => ReactNode;
}): ReactElement {
  const retry = () => void query.refetch();
  if (query.data === undefined) return query.isError ? <ProblemView error={query.error} retry={retry} /> : <Loading lines={lines} />;
  return (
    <>
      {query.isError && (
        <p className="stale" role="status">
          <Icon name="warning" /> {words.stale(problemOf(query.error).message)}
        </p>
      )}
      {children(query.data)}
    </>
  );
}
