// Shows a page's own failure instead of nothing at all.
import { Component, type ReactNode } from 'react';
import { ProblemView } from './parts/problem.tsx';

/** What is below, or the error that it threw. */
export class PageBoundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    // Loaded again: a page that was left open during an update asks for files that are gone.
    return error === undefined ? this.props.children : <ProblemView error={error} retry={() => location.reload()} />;
  }
}
