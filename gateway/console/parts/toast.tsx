// Short messages about what was just done, at the edge of the window; screen readers read them too.
import { useSyncExternalStore, type ReactElement } from 'react';
import { Icon } from './icons.tsx';
import { problemOf } from './problem.tsx';

interface Toast {
  id: number;
  text: string;
  isError: boolean;
}

const showMs = 6_000;
let toasts: Toast[] = [];
let nextId = 0;
const listeners = new Set<() => void>();

function set(next: Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

/** Shows a message for six seconds. */
export function toast(text: string, isError = false): void {
  const id = nextId++;
  set([...toasts, { id, text, isError }]);
  setTimeout(() => set(toasts.filter((each) => each.id !== id)), isError ? 2 * showMs : showMs);
}

/** Shows why something could not be done, long enough to read it. */
export function toastError(error: unknown): void {
  toast(problemOf(error).message, true);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Where the messages appear. */
export function Toasts(): ReactElement {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, isError }) => (
        <p key={id} className="toast">
          <Icon name={isError ? 'warning' : 'check'} /> {text}
        </p>
      ))}
    </div>
  );
}
