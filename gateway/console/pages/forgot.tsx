// Asking for the mail that sets a new password.
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import { Link } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { ledger } from '../session.ts';
import { words } from '../words.ts';
import { Gate } from './gate.tsx';

/** `/console/forgot`. */
export function ForgotPage(): ReactElement {
  const [email, setEmail] = useState('');
  const forgot = useMutation({ mutationFn: () => ledger.auth.forgotPassword({ email }) });
  const text = words.forgot;
  return (
    <Gate title={text.title} lead={forgot.isSuccess ? undefined : text.hint}>
      {forgot.isSuccess ? (
        <p role="status">{text.done}</p>
      ) : (
        <Form
          onSubmit={() => forgot.mutate()}
          error={forgot.error}
          actions={
            <Button kind="primary" type="submit" isPending={forgot.isPending}>
              {text.action}
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
        </Form>
      )}
      <p className="gate-links">
        <Link href="/login">{text.back}</Link>
      </p>
    </Gate>
  );
}
