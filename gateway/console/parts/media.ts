// What the window is like.
import { useSyncExternalStore } from 'react';

function useMedia(query: string): boolean {
  const subscribe = (listener: () => void): (() => void) => {
    const media = matchMedia(query);
    media.addEventListener('change', listener);
    return () => media.removeEventListener('change', listener);
  };
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}

/** A telephone, or a window as narrow as one. */
export function useIsNarrow(): boolean {
  return useMedia('(max-width: 760px)');
}

/** Whether the colours are dark: by the user's choice, or the system's. */
export function useIsDark(): boolean {
  const isSystemDark = useMedia('(prefers-color-scheme: dark)');
  const chosen = document.documentElement.dataset['theme'];
  return chosen === undefined ? isSystemDark : chosen === 'dark';
}

/** Whether the browser has a network. */
export function useIsOnline(): boolean {
  const subscribe = (listener: () => void): (() => void) => {
    for (const event of ['online', 'offline']) addEventListener(event, listener);
    return () => ['online', 'offline'].forEach((event) => removeEventListener(event, listener));
  };
  return useSyncExternalStore(subscribe, () => navigator.onLine);
}
