import type { JSX } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { useIsCopied } from '../state/clipboard.ts';
import { askBeforeLeaving } from '../state/router.ts';
import { holdPage, isHeld } from '../state/session.ts';
import { CopyButton } from './copy-button.tsx';
import './new-key.css';

/**
 * Escape and a click beside a dialog are easily accidents, and its token would be lost: until it is copied the first one only
 * warns.
 */
export function TokenWarning(): JSX.Element {
  return (
    <p role="alert" class="warn">
      The key is not shown again. Close the dialog once it is saved.
    </p>
  );
}

/** A token that was just created. No other page can show it again, so until it is copied the first Back, link or reload only warns. */
export function NewKey({ token }: { readonly token: string }): JSX.Element {
  const [isWarning, setWarning] = useState(false);
  const isSafe = useIsCopied(token);
  // The page that asks to sign in would take the place of this one.
  useLayoutEffect(holdPage, []);
  // An effect would run after the next frame, and Back may be faster.
  useLayoutEffect(() => {
    if (isSafe) return undefined;
    let wasWarned = false;
    const end = askBeforeLeaving(() => {
      const isFirst = !wasWarned;
      wasWarned = true;
      setWarning(true);
      return isFirst;
    });
    const ask = (event: Event): void => event.preventDefault();
    window.addEventListener('beforeunload', ask);
    return () => {
      end();
      window.removeEventListener('beforeunload', ask);
    };
  }, [isSafe]);
  return (
    <div class="new-key">
      <output aria-label="New API key" class="mono new-key-token">
        {token}
      </output>
      <CopyButton text={token} />
      <p class="muted">
        Copy it now: it is not shown again. Anyone who has it can send data to its project.
      </p>
      {isHeld.value && (
        <p role="alert" class="warn">
          The sign-in has ended. Copy the key, then close the dialog or leave the page to sign in
          again.
        </p>
      )}
      {isWarning && !isSafe && (
        <p role="alert" class="warn">
          The key is not shown again. Leave the page once it is saved.
        </p>
      )}
    </div>
  );
}
