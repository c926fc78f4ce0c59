import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { askBeforeLeaving } from '../state/router.ts';
import { CopyButton } from './copy-button.tsx';
import './new-key.css';

/** Escape and a click beside a dialog are easily accidents, and its token would be lost: the first one only warns. */
export function TokenWarning(): JSX.Element {
  return (
    <p role="alert" class="warn">
      The key is not shown again. Close the dialog once it is saved.
    </p>
  );
}

/** A token that was just created. No other page can show it again, so the first Back only warns. */
export function NewKey({ token }: { readonly token: string }): JSX.Element {
  const wasWarned = useRef(false);
  const [isWarning, setWarning] = useState(false);
  useEffect(
    () =>
      askBeforeLeaving(() => {
        const isFirst = !wasWarned.current;
        wasWarned.current = true;
        setWarning(true);
        return isFirst;
      }),
    [],
  );
  return (
    <div class="new-key">
      <output aria-label="New API key" class="mono new-key-token">
        {token}
      </output>
      <CopyButton text={token} />
      <p class="muted">
        Copy it now: it is not shown again. Anyone who has it can send data to its project.
      </p>
      {isWarning && (
        <p role="alert" class="warn">
          The key is not shown again. Go back once it is saved.
        </p>
      )}
    </div>
  );
}
