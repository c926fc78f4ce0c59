import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { copyText } from '../state/clipboard.ts';
import { failed } from '../state/toasts.ts';
import { Icon } from './icon.tsx';

type Props = { readonly text: string; readonly label?: string; readonly isIconOnly?: boolean };

/** Milliseconds that the button says that it has copied. */
const SAID_MS = 1_500;

/** Copies a text. */
export function CopyButton({ text, label = 'Copy', isIconOnly = false }: Props): JSX.Element {
  const [isDone, setDone] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isDone) return undefined;
    const timer = setTimeout(() => setDone(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async (): Promise<void> => {
    try {
      await copyText(text, button.current);
      setDone(true);
    } catch {
      failed(new Error('The browser does not allow copying here. Select the text and copy it.'));
    }
  };
  return (
    <button
      ref={button}
      type="button"
      class={isIconOnly ? 'quiet icon-only' : ''}
      title={label}
      {...(isIconOnly ? { 'aria-label': label } : {})}
      onClick={() => void copy()}
    >
      <Icon name={isDone ? 'check' : 'copy'} /> {!isIconOnly && (isDone ? 'Copied' : label)}
    </button>
  );
}
