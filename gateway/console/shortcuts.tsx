// Keyboard shortcuts: `/` searches, `n` posts, `g` and a letter goes to a page, `?` lists them.
import { useEffect, useRef, type ReactElement } from 'react';
import { navigation } from './pages.tsx';
import { Dialog } from './parts/dialog.tsx';
import { useGo } from './parts/links.ts';
import { words } from './words.ts';

const secondKeyMs = 1_500;

/** Handles the keys while no field and no dialog has the focus. */
export function useShortcuts({ onSearch, onHelp }: { onSearch: () => void; onHelp: () => void }): void {
  const go = useGo();
  const pressed = useRef(0);
  useEffect(() => {
    const handle = (event: KeyboardEvent): void => {
      const isTyping =
        event.target instanceof Element &&
        event.target.closest('input, textarea, select, [contenteditable], [role=dialog], [role=menu], [role=listbox]');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const isSecond = Date.now() - pressed.current < secondKeyMs;
      pressed.current = event.key === 'g' && !isSecond ? Date.now() : 0;
      const page = isSecond ? navigation.flatMap(({ items }) => items).find(({ shortcut }) => shortcut === event.key)?.path : undefined;
      const actions: Partial<Record<string, () => void>> = { '/': onSearch, '?': onHelp, n: () => go('/post') };
      const action = page === undefined ? (isSecond ? undefined : actions[event.key]) : () => go(page);
      if (!action) return;
      event.preventDefault();
      action();
    };
    // Before tables and trees, whose letters select rows.
    addEventListener('keydown', handle, { capture: true });
    return () => removeEventListener('keydown', handle, { capture: true });
  }, [go, onSearch, onHelp]);
}

/** The list of shortcuts. */
export function ShortcutList({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }): ReactElement {
  const lines: [keys: string[], meaning: string][] = [
    [['/'], words.shortcuts.search],
    [['n'], words.shortcuts.post],
    ...navigation
      .flatMap(({ items }) => items)
      .map(({ shortcut, label }): [string[], string] => [['g', shortcut], words.shortcuts.go(label)]),
    [['?'], words.shortcuts.help],
  ];
  return (
    <Dialog title={words.shortcuts.title} isOpen={isOpen} onClose={onClose}>
      <dl className="shortcuts">
        {lines.map(([keys, meaning]) => (
          <div key={meaning}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
