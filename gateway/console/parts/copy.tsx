// Text to copy: ids and hashes, and secrets that are shown once.
import { useEffect, useState, type ReactElement } from 'react';
import { words } from '../words.ts';
import { Button } from './button.tsx';

const shownMs = 2_000;

/** A button that copies. */
export function CopyButton({ text, label = words.copy }: { text: string; label?: string }): ReactElement {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), shownMs);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <span className="copy">
      <Button kind="quiet" icon={isCopied ? 'check' : 'copy'} label={label} onPress={copy} />
      <span role="status" className="unseen">
        {isCopied ? words.copied : ''}
      </span>
    </span>
  );
}

/** An id or a hash: shortened where there is no room, whole when copied. */
export function Code({ text, isShort = false }: { text: string; isShort?: boolean }): ReactElement {
  return (
    <span className="code">
      <code title={text}>{isShort ? `${text.slice(0, 12)}…` : text}</code>
      <CopyButton text={text} />
    </span>
  );
}

/** A secret that is shown this once. */
export function Secret({ text, label }: { text: string; label: string }): ReactElement {
  return (
    <div className="secret">
      <p>
        <strong>{label}</strong> {words.shownOnce}
      </p>
      <div className="secret-text">
        <code>{text}</code>
        <CopyButton text={text} label={words.copySecret} />
      </div>
    </div>
  );
}
