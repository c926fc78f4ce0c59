import type { JSX } from 'preact';
import { CopyButton } from './copy-button.tsx';
import './new-key.css';

/** A token that was just created. No other page can show it again. */
export function NewKey({ token }: { readonly token: string }): JSX.Element {
  return (
    <div class="new-key">
      <output aria-label="New API key" class="mono new-key-token">
        {token}
      </output>
      <CopyButton text={token} />
      <p class="muted">
        Copy it now: it is not shown again. Anyone who has it can send data to its project.
      </p>
    </div>
  );
}
