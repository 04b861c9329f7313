// The chart of accounts as a tree: all nodes in order, and only those that fit a filter.
import type { AccountNode } from '../../clients/typescript/ledger.ts';

/** All accounts of a tree, groups too. */
export function flatten(nodes: readonly AccountNode[]): AccountNode[] {
  return nodes.flatMap((node) => [node, ...flatten(node.children)]);
}

/** Whether one of the names contains the text. */
export function isLike(text: string, ...names: string[]): boolean {
  const wanted = text.trim().toLowerCase();
  return names.some((name) => name.toLowerCase().includes(wanted));
}

/** The nodes that fit, with the groups above them. */
export function prune(nodes: readonly AccountNode[], fits: (node: AccountNode) => boolean): AccountNode[] {
  return nodes.flatMap((node) => {
    const children = prune(node.children, fits);
    return children.length > 0 || fits(node) ? [{ ...node, children }] : [];
  });
}

/** The address of an account's page. */
export function accountPath(code: string): string {
  return `/accounts/${encodeURIComponent(code)}`;
}
