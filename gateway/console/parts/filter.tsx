// Filters that a list applies while one types.
import { useEffect, useRef, useState, type ComponentProps, type ReactElement } from 'react';
import { AccountPicker, usePostable } from './account-picker.tsx';
import { TextField } from './form.tsx';

const pauseMs = 300;

/** A field whose value is applied after a pause in typing. */
export function SearchField({ value, onChange, ...field }: ComponentProps<typeof TextField>): ReactElement {
  const [text, setText] = useState(value);
  const applied = useRef(value);
  // The address may change by other ways, such as going back.
  if (applied.current !== value && text === applied.current) {
    applied.current = value;
    setText(value);
  }
  useEffect(() => {
    if (text === applied.current) return;
    const timer = setTimeout(() => {
      applied.current = text;
      onChange(text);
    }, pauseMs);
    return () => clearTimeout(timer);
  });
  return <TextField {...field} value={text} onChange={setText} />;
}

/** A field for an account, whose code is applied once it is that of one. */
export function AccountFilter({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (code: string) => void;
}): ReactElement {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    setText(value);
  }
  const accounts = usePostable();
  const choose = (code: string): void => {
    setText(code);
    const isComplete = code === '' || accounts.some((account) => account.account_code === code);
    if (isComplete && code !== value) onChange(code);
  };
  const apply = (): void => {
    if (text !== value) onChange(text);
  };
  return (
    // A chart may be too large to be listed: a code is then applied when the field is left.
    <div onBlur={apply}>
      <AccountPicker label={label} name="account_code" value={text} onChange={choose} accounts={accounts} />
    </div>
  );
}
