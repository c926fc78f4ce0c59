import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Toasts } from '../../parts/toasts.tsx';

type Props = {
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
};

/** Covers the page of a narrow screen. The browser keeps the focus inside; when it closes, the part that opened it has the focus again. */
export function Sheet({ label, onClose, children }: Props): JSX.Element {
  const place = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    const { activeElement: before, body } = document;
    // A link to an observation opens it before anything has the focus.
    const tree = element?.parentElement?.querySelector<HTMLElement>('[role=tree]');
    const opener = before instanceof HTMLElement && before !== body ? before : tree;
    element?.showModal();
    element?.focus();
    return () => {
      element?.close();
      opener?.focus({ preventScroll: true });
    };
  }, []);
  const cancel = (event: Event): void => {
    event.preventDefault();
    onClose();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it too.
    <dialog
      class="sheet"
      aria-label={label}
      tabIndex={-1}
      ref={place}
      onCancel={cancel}
      onClick={({ target }) => target === place.current && onClose()}
    >
      {children}
      <Toasts />
    </dialog>
  );
}
