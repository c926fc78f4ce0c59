import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useId, useLayoutEffect } from 'preact/hooks';
import { closeToast, toasts } from '../state/toasts.ts';
import { Icon } from './icon.tsx';

/** The places of messages, that of the page first, then those of the open dialogs. */
const places = signal<readonly string[]>([]);

/**
 * Short messages at the edge of the window; a screen reader reads them when they appear. A modal dialog covers the page and takes every
 * key, so the messages show in the last one that is open.
 */
export function Toasts(): JSX.Element | null {
  const id = useId();
  useLayoutEffect(() => {
    places.value = [...places.value, id];
    return () => {
      places.value = places.value.filter((each) => each !== id);
    };
  }, [id]);
  if (places.value.at(-1) !== id) return null;
  return (
    <div class="toasts">
      {toasts.value.map(({ id, text, isError }) => (
        <div key={id} class={isError ? 'toast bad' : 'toast'} role={isError ? 'alert' : 'status'}>
          <span class="user-text">{text}</span>
          <button type="button" class="quiet" aria-label="Close" onClick={() => closeToast(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
