// Filters that a list applies while one types.
import { useEffect, useRef, useState, type ComponentProps, type ReactElement } from 'react';
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
