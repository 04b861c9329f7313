// Buttons, also as links and menus; what the user's scopes forbid is disabled and says why.
import type { ReactElement, ReactNode } from 'react';
import { Button as AriaButton, Link as AriaLink, Menu, MenuItem, MenuTrigger, Popover, type MenuItemProps } from 'react-aria-components';
import { useMissing, type Need } from '../tenant.tsx';
import { words } from '../words.ts';
import { Icon, type IconName } from './icons.tsx';

interface Looks {
  /** `primary`: the one thing that the page is for. `danger`: what can't be taken back. */
  kind?: 'primary' | 'plain' | 'quiet' | 'danger';
  icon?: IconName;
  children?: ReactNode;
  /** The scope or role that it needs. */
  needs?: Need;
}

interface ButtonProps extends Looks {
  type?: 'button' | 'submit';
  onPress?: () => void;
  isDisabled?: boolean;
  /** While its request runs. */
  isPending?: boolean;
  /** The name of a button that shows an icon alone. */
  label?: string;
  isPressed?: boolean;
}

const classOf = ({ kind = 'plain', children }: Looks): string => `button ${kind}${children === undefined ? ' only-icon' : ''}`;

/** A button. */
export function Button({
  needs,
  isDisabled = false,
  isPending = false,
  label,
  isPressed,
  type = 'button',
  onPress,
  ...looks
}: ButtonProps): ReactElement {
  const missing = useMissing(needs);
  const button = (
    <AriaButton
      className={classOf(looks)}
      // React Aria's own pending state announces a button that may be gone. This one keeps the focus and does nothing, too.
      type={isPending ? 'button' : type}
      isDisabled={isDisabled || missing !== undefined}
      onPress={isPending ? undefined : onPress}
      data-pending={isPending || undefined}
      aria-label={label}
      aria-pressed={isPressed}
    >
      {looks.icon && <Icon name={looks.icon} />}
      {looks.children}
      {isPending && <span className="unseen"> {words.loading}</span>}
    </AriaButton>
  );
  return missing === undefined ? button : <Forbidden missing={missing}>{button}</Forbidden>;
}

/** A link that looks like a button. */
export function LinkButton({ href, needs, ...looks }: Looks & { href: string }): ReactElement {
  const missing = useMissing(needs);
  const link = (
    <AriaLink className={classOf(looks)} href={missing === undefined ? href : undefined} isDisabled={missing !== undefined}>
      {looks.icon && <Icon name={looks.icon} />}
      {looks.children}
    </AriaLink>
  );
  return missing === undefined ? link : <Forbidden missing={missing}>{link}</Forbidden>;
}

function Forbidden({ missing, children }: { missing: string; children: ReactNode }): ReactElement {
  return (
    <span className="forbidden">
      {children}
      <span className="reason">
        <Icon name="lock" /> {words.needs(missing)}
      </span>
    </span>
  );
}

/** A button that opens a menu of actions or links. */
export function MenuButton({
  items,
  label,
  ...looks
}: Omit<Looks, 'needs'> & { label?: string; items: (MenuItemProps & { label: string })[] }): ReactElement {
  return (
    <MenuTrigger>
      <AriaButton className={classOf(looks)} aria-label={label}>
        {looks.icon && <Icon name={looks.icon} />}
        {looks.children}
        <Icon name="down" />
      </AriaButton>
      <Popover className="popover" placement="bottom end">
        <Menu className="menu">
          {items.map(({ label: text, ...item }) => (
            <MenuItem key={text} textValue={text} className="menu-item" {...item}>
              {text}
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
