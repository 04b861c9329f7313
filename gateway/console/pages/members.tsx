// The members of the tenant, their roles, and open invitations.
import { useState, type ReactElement } from 'react';
import type { Invitation, Member, Role } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Form, SelectField, TextField } from '../parts/form.tsx';
import { Badge, Page, Section } from '../parts/page.tsx';
import { Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast, toastError } from '../parts/toast.tsx';
import { session } from '../session.ts';
import { useMissing, usePages, useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.members;
const { common } = texts;

const roleOptions = Object.entries(words.roles).map(([id, label]) => ({ id, label, detail: words.roleTexts[id] }));

const columns: ColumnOf<Member>[] = [
  { id: 'name', label: common.name, cell: (member) => <Name member={member} /> },
  { id: 'email', label: words.email, cell: ({ email }) => email },
  { id: 'role', label: words.role, cell: (member) => <RoleChoice member={member} /> },
  {
    id: 'factor',
    label: words.secondFactor,
    isOptional: true,
    cell: ({ totp_enabled: isOn }) => <Badge tone={isOn ? 'good' : 'plain'}>{isOn ? words.on : words.off}</Badge>,
  },
  { id: 'since', label: words.since, isOptional: true, cell: ({ created_at: at }) => <Time time={at} as="day" /> },
  { id: 'actions', label: common.actions, cell: (member) => <RemoveButton member={member} /> },
];

const nameOf = ({ first_name: first, last_name: last }: Member): string => `${first} ${last}`.trim();

function Name({ member }: { member: Member }): ReactElement {
  const isSelf = member.user_id === session.read()?.user.id;
  return (
    <>
      {nameOf(member)} {isSelf && <Badge>{words.you}</Badge>}
    </>
  );
}

/** The page. */
export function MembersPage(): ReactElement {
  const [isInviting, setInviting] = useState(false);
  const pages = usePages(
    ['members'],
    (ledger, options) => ledger.members.list(options),
    ({ members }) => members,
  );
  const isAdmin = useMissing('admin') === undefined;
  return (
    <Page
      title={words.title}
      lead={words.lead}
      actions={
        <Button kind="primary" icon="add" onPress={() => setInviting(true)} needs="admin">
          {words.invite}
        </Button>
      }
    >
      <Loaded query={pages.query}>
        {() => <Sheet label={words.title} columns={columns} items={pages.items} idOf={({ user_id: id }) => id} />}
      </Loaded>
      {pages.more && <Button onPress={pages.more}>{common.loadMore}</Button>}
      {isAdmin && <Invitations />}
      {isInviting && <InviteDialog onClose={() => setInviting(false)} />}
    </Page>
  );
}

function RoleChoice({ member }: { member: Member }): ReactElement {
  const change = useWrite(
    (ledger, role: Role) => ledger.members.update(member.user_id, { role }),
    () => toast(words.changed),
  );
  const isAdmin = useMissing('admin') === undefined;
  if (!isAdmin) return <>{words.roles[member.role]}</>;
  return (
    <SelectField
      label={`${words.role}: ${nameOf(member)}`}
      name="role"
      isCompact
      value={member.role}
      isDisabled={change.isPending}
      onChange={(role) => role !== member.role && change.mutate(role as Role, { onError: toastError })}
      options={roleOptions}
    />
  );
}

function RemoveButton({ member }: { member: Member }): ReactElement {
  const [isAsked, setAsked] = useState(false);
  const remove = useWrite(
    (ledger) => ledger.members.remove(member.user_id),
    () => {
      toast(words.removed);
      setAsked(false);
    },
  );
  return (
    <span className="row-actions">
      <Button kind="quiet" onPress={() => setAsked(true)} needs="admin">
        {words.remove}
      </Button>
      <Confirm
        title={words.removeTitle(nameOf(member))}
        isOpen={isAsked}
        onClose={() => setAsked(false)}
        action={words.removeTitle(nameOf(member))}
        onConfirm={() => remove.mutate(undefined)}
        isPending={remove.isPending}
        error={remove.error}
      >
        <p>{words.removeText}</p>
      </Confirm>
    </span>
  );
}

const invitationColumns: ColumnOf<Invitation>[] = [
  { id: 'email', label: words.email, cell: ({ email }) => email },
  { id: 'role', label: words.role, cell: ({ role }) => words.roles[role] },
  { id: 'expires', label: words.expires, cell: ({ expires_at: at }) => <Time time={at} /> },
  { id: 'actions', label: common.actions, cell: (invitation) => <RevokeButton invitation={invitation} /> },
];

function Invitations(): ReactElement {
  const pages = usePages(
    ['invitations'],
    (ledger, options) => ledger.invitations.list(options),
    ({ invitations }) => invitations,
  );
  const pending = pages.items.filter(({ status }) => status === 'pending');
  return (
    <Section title={words.invitations}>
      <Loaded query={pages.query} lines={2}>
        {() =>
          pending.length === 0 ? (
            <p className="hint">{words.noInvitations}</p>
          ) : (
            <Sheet label={words.invitations} columns={invitationColumns} items={pending} idOf={({ id }) => id} />
          )
        }
      </Loaded>
    </Section>
  );
}

function RevokeButton({ invitation }: { invitation: Invitation }): ReactElement {
  const revoke = useWrite((ledger) => ledger.invitations.delete(invitation.id));
  return (
    <span className="row-actions">
      <Button kind="quiet" onPress={() => revoke.mutate(undefined, { onError: toastError })} isPending={revoke.isPending} needs="admin">
        {words.revoke}
      </Button>
    </span>
  );
}

function InviteDialog({ onClose }: { onClose: () => void }): ReactElement {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<string>('viewer');
  const invite = useWrite(
    (ledger) => ledger.invitations.create({ email, role: role as Role }),
    () => {
      toast(words.invited);
      onClose();
    },
  );
  return (
    <Dialog title={words.inviteTitle} isOpen onClose={onClose}>
      <Form
        onSubmit={() => invite.mutate(undefined)}
        error={invite.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={invite.isPending}>
              {words.invite}
            </Button>
          </>
        }
      >
        <TextField label={words.email} name="email" type="email" value={email} onChange={setEmail} isRequired autoFocus />
        <SelectField label={words.role} name="role" value={role} onChange={setRole} options={roleOptions} />
      </Form>
    </Dialog>
  );
}
