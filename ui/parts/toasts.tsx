import type { JSX } from 'preact';
import { closeToast, toasts } from '../state/toasts.ts';
import { Icon } from './icon.tsx';

/** Short messages at the edge of the window; a screen reader reads them when they appear. */
export function Toasts(): JSX.Element {
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
