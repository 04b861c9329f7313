// Registering a user, who is logged in at once.
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import { Link } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { ledger, logIn } from '../session.ts';
import { words } from '../words.ts';
import { Gate } from './gate.tsx';

const empty = { first_name: '', last_name: '', email: '', password: '' };

/** `/console/register`. */
export function RegisterPage(): ReactElement {
  const [given, setGiven] = useState(empty);
  const register = useMutation({
    mutationFn: async () => {
      await ledger.auth.register(given);
      await logIn({ email: given.email, password: given.password });
    },
  });
  const field = (name: keyof typeof empty) => ({
    name,
    value: given[name],
    onChange: (value: string) => setGiven({ ...given, [name]: value }),
    isRequired: true,
  });
  const text = words.register;
  return (
    <Gate title={text.title}>
      <Form
        onSubmit={() => register.mutate()}
        error={register.error}
        actions={
          <Button kind="primary" type="submit" isPending={register.isPending}>
            {text.action}
          </Button>
        }
      >
        <div className="field-row">
          <TextField label={text.firstName} autoComplete="given-name" autoFocus {...field('first_name')} />
          <TextField label={text.lastName} autoComplete="family-name" {...field('last_name')} />
        </div>
        <TextField label={text.email} type="email" autoComplete="username" {...field('email')} />
        <TextField
          label={text.password}
          type="password"
          autoComplete="new-password"
          minLength={8}
          maxLength={128}
          hint={text.passwordHint}
          {...field('password')}
        />
      </Form>
      <p className="gate-links">
        <Link href="/login">{text.toLogin}</Link>
      </p>
    </Gate>
  );
}
