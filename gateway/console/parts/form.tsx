// Forms: fields with their errors beside them, and a button that works once at a time.
import type { ReactElement, ReactNode } from 'react';
import {
  Button as AriaButton,
  CheckboxButton,
  CheckboxField,
  FieldError,
  Form as AriaForm,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Select as AriaSelect,
  SelectValue,
  Text,
  TextArea as AriaTextArea,
  TextField as AriaTextField,
} from 'react-aria-components';
import { Icon } from './icons.tsx';
import { problemOf, ProblemView } from './problem.tsx';

/** A form. `error`: of its last request; what it says of a field by `name` stands at that field, anything else above the buttons. */
export function Form({
  onSubmit,
  error,
  children,
  actions,
}: {
  onSubmit: () => void;
  error?: unknown;
  children: ReactNode;
  actions: ReactNode;
}): ReactElement {
  const { errors } = problemOf(error ?? {});
  return (
    <AriaForm
      className="form"
      validationErrors={Object.fromEntries(errors.map(({ field, message }) => [field, message]))}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
      {error !== undefined && error !== null && <ProblemView error={error} />}
      <div className="form-actions">{actions}</div>
    </AriaForm>
  );
}

interface FieldProps {
  label: string;
  /** As the API names it: its errors find it by this. */
  name: string;
  value: string;
  onChange: (value: string) => void;
  hint?: ReactNode;
  isRequired?: boolean;
  isDisabled?: boolean;
  autoFocus?: boolean;
  /** What is wrong with the value, as far as the page itself knows. */
  error?: string;
}

interface TextProps extends FieldProps {
  type?: 'text' | 'email' | 'password' | 'url' | 'date' | 'search' | 'number' | 'datetime-local';
  autoComplete?: string;
  minLength?: number;
  maxLength?: number;
  placeholder?: string;
  inputMode?: 'decimal' | 'numeric' | 'text';
  /** More than one line. */
  rows?: number;
  /** For codes and amounts. */
  isMono?: boolean;
  /** Figures on the right. */
  isNumber?: boolean;
  /** The label is for screen readers only. */
  isCompact?: boolean;
  min?: string;
  max?: string;
}

/** A field for text. */
export function TextField({
  label,
  hint,
  placeholder,
  rows,
  isMono = false,
  isNumber = false,
  isCompact = false,
  min,
  max,
  error,
  ...field
}: TextProps): ReactElement {
  const className = `input${isMono ? ' mono' : ''}${isNumber ? ' number' : ''}`;
  return (
    <AriaTextField
      className={isCompact ? 'field compact' : 'field'}
      aria-label={isCompact ? label : undefined}
      isInvalid={error === undefined ? undefined : true}
      {...field}
    >
      {!isCompact && <Label>{label}</Label>}
      {rows === undefined ? (
        <Input className={className} placeholder={placeholder} min={min} max={max} />
      ) : (
        <AriaTextArea className={className} placeholder={placeholder} rows={rows} />
      )}
      {hint !== undefined && <Text slot="description">{hint}</Text>}
      <FieldError className="field-error">{error}</FieldError>
    </AriaTextField>
  );
}

/** A choice of few. */
export function SelectField({
  label,
  hint,
  options,
  value,
  onChange,
  isCompact = false,
  ...field
}: FieldProps & {
  options: readonly { id: string; label: string; detail?: string }[];
  /** The label is for screen readers only. */ isCompact?: boolean;
}): ReactElement {
  return (
    <AriaSelect
      className={isCompact ? 'field compact' : 'field'}
      value={value}
      onChange={(key) => key !== null && onChange(String(key))}
      aria-label={isCompact ? label : undefined}
      {...field}
    >
      {!isCompact && <Label>{label}</Label>}
      <AriaButton className="input select">
        <SelectValue>{({ selectedText }) => selectedText}</SelectValue>
        <Icon name="down" />
      </AriaButton>
      {hint !== undefined && <Text slot="description">{hint}</Text>}
      <FieldError className="field-error" />
      <Popover className="popover">
        <ListBox className="list" items={options}>
          {(option) => (
            <ListBoxItem className="list-item" textValue={option.label}>
              <span>{option.label}</span>
              {option.detail !== undefined && <small>{option.detail}</small>}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

/** A choice of yes and no. */
export function Checkbox({
  label,
  isSelected,
  onChange,
  isDisabled,
}: {
  label: ReactNode;
  isSelected: boolean;
  onChange: (isSelected: boolean) => void;
  isDisabled?: boolean;
}): ReactElement {
  return (
    <CheckboxField isSelected={isSelected} onChange={onChange} isDisabled={isDisabled}>
      <CheckboxButton className="checkbox">
        <span className="box">
          <Icon name="check" />
        </span>
        {label}
      </CheckboxButton>
    </CheckboxField>
  );
}
