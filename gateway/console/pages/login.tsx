// Logging in, with the second factor where the user has one.
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import { Link } from 'wouter';
import type { LedgerError } from '../../clients/typescript/ledger.ts';
import { Button } from '../parts/button.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { logIn } from '../session.ts';
import { words } from '../words.ts';
import { Gate } from './gate.tsx';

/** `/console/login`. */
export function LoginPage(): ReactElement {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState<string>();
  const login = useMutation({
    mutationFn: () => logIn({ email, password, ...(code && { totp_code: code.trim() }) }),
    onError: (error: LedgerError) => {
      if (error.code === 'totp_required') setCode('');
    },
  });
  // Asking for the code is no failure.
  const error = login.error && (login.error.code !== 'totp_required' || code) ? login.error : undefined;
  return (
    <Gate title={words.login.title} lead={words.login.lead}>
      <Form
        onSubmit={() => login.mutate()}
        error={error}
        actions={
          <Button kind="primary" type="submit" isPending={login.isPending}>
            {words.login.action}
          </Button>
        }
      >
        <TextField
          label={words.login.email}
          name="email"
          type="email"
          autoComplete="username"
          value={email}
          onChange={setEmail}
          isRequired
          autoFocus
        />
        <TextField
          label={words.login.password}
          name="password"
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={setPassword}
          isRequired
        />
        {code !== undefined && (
          <TextField
            label={words.login.code}
            name="totp_code"
            autoComplete="one-time-code"
            hint={words.login.codeHint}
            value={code}
            onChange={setCode}
            isRequired
            autoFocus
            isMono
          />
        )}
      </Form>
      <p className="gate-links">
        <Link href="/register">{words.login.toRegister}</Link>
        <Link href="/forgot">{words.login.forgot}</Link>
      </p>
    </Gate>
  );
}
