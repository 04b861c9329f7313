// Dialogs above the page, and the question before what can't be taken back.
import type { ReactElement, ReactNode } from 'react';
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from 'react-aria-components';
import { words } from '../words.ts';
import { Button } from './button.tsx';
import { ProblemView } from './problem.tsx';

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  /** `side`: along the whole height, for navigation and long details. */
  place?: 'middle' | 'side';
  /** Only its button closes it: what it shows is shown once. */
  isKept?: boolean;
}

/** A dialog. Escape and a click outside close it. */
export function Dialog({ title, isOpen, onClose, children, place = 'middle', isKept = false }: DialogProps): ReactElement {
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable={!isKept}
      isKeyboardDismissDisabled={isKept}
    >
      <Modal className={`modal ${place}`}>
        <AriaDialog className="dialog">
          <header className="dialog-head">
            <Heading slot="title">{title}</Heading>
            <Button kind="quiet" icon="close" label={words.close} onPress={onClose} />
          </header>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

/** Asks before something is done that can't be taken back. */
export function Confirm({
  title,
  children,
  action,
  isOpen,
  onClose,
  onConfirm,
  isPending,
  error,
}: Omit<DialogProps, 'place'> & { action: string; onConfirm: () => void; isPending?: boolean; error?: unknown }): ReactElement {
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <div className="dialog-body">{children}</div>
      {error !== undefined && error !== null && <ProblemView error={error} />}
      <div className="form-actions">
        <Button onPress={onClose}>{words.cancel}</Button>
        <Button kind="danger" onPress={onConfirm} isPending={isPending}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
