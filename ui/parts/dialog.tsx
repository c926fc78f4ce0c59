import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks';
import { entry } from '../state/router.ts';
import { Toasts } from './toasts.tsx';

type Props = {
  readonly title: string;
  /** Escape, a click beside the dialog, or its Cancel button. */
  readonly onClose: () => void;
  /** Back, Forward, or a link in the dialog opened another page; `onClose` if it is absent. */
  readonly onLeave?: () => void;
  readonly children: ComponentChildren;
};

/** A modal dialog. The browser keeps the focus inside, and gives it back when the dialog closes. */
export function Dialog({ title, onClose, onLeave = onClose, children }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const here = entry.value;
  const opened = useRef(here);
  useEffect(() => {
    if (here !== opened.current) onLeave();
  }, [here]);
  const heading = useId();
  // useEffect cleans up after the next frame: until then no element would have the focus.
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const closeIfBeside = (event: MouseEvent): void => {
    if (event.target === dialog.current) onClose();
  };
  const cancel = (event: Event): void => {
    event.preventDefault();
    onClose();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes the dialog too.
    <dialog ref={dialog} aria-labelledby={heading} onCancel={cancel} onClick={closeIfBeside}>
      <div class="dialog-body">
        <h2 id={heading}>{title}</h2>
        {children}
      </div>
      <Toasts />
    </dialog>
  );
}
