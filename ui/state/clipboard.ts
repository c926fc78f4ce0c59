import { signal } from '@preact/signals';
import { useRef } from 'preact/hooks';

/** The text of this page that was copied last, by a button or by a key. */
const copiedText = signal('');
document.addEventListener('copy', () => {
  copiedText.value = getSelection()?.toString() ?? '';
});

/** Whether a copied text held this one. A later copy of another text changes nothing. */
export function useIsCopied(text: string | undefined): boolean {
  const wasCopied = useRef<string>(undefined);
  if (text !== undefined && copiedText.value.includes(text)) wasCopied.current = text;
  return text !== undefined && wasCopied.current === text;
}

/**
 * Copies a text. `near` is an element of the same dialog, or of the page. Rejects if the browser does not allow it. A page that
 * came without TLS has no clipboard, except on loopback; the browser copies a selected text there, too.
 */
export async function copyText(text: string, near: Element | null): Promise<void> {
  const { clipboard } = navigator as { readonly clipboard?: Clipboard };
  if (clipboard !== undefined) await clipboard.writeText(text);
  else if (!copySelected(text, near)) throw new Error('The browser does not copy');
  copiedText.value = text;
}

function copySelected(text: string, near: Element | null): boolean {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.className = 'unseen';
  field.readOnly = true;
  field.value = text;
  // While a modal dialog is open, no element outside of it takes the focus.
  (near?.closest('dialog') ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isCopied;
}
