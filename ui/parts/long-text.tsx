import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { bytes } from './format.ts';
import { beginning, piecesOf, visible } from './text-pieces.ts';

type Props = {
  readonly text: string;
  /** Characters that show at first. */
  readonly first?: number;
  readonly isMono?: boolean;
};

/** A text of a client with its line breaks. A long one shows its beginning, and all of it on demand. One of which nothing would show says so. */
export function LongText({ text, first = 4_000, isMono = false }: Props): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && text.length > first * 1.2;
  const pieces = useMemo(
    () => piecesOf(visible(isCut ? beginning(text, first) : text)),
    [text, first, isCut],
  );
  if (text.trim() === '') {
    return <span class="muted">{text === '' ? 'Empty text' : 'White space only'}</span>;
  }
  return (
    <div class={isMono ? 'long-text mono' : 'long-text'}>
      {pieces.map((piece, index) => (
        <div key={index} class={pieces.length > 1 ? 'piece' : ''} dir="auto">
          {piece}
        </div>
      ))}
      {isCut && (
        <button type="button" class="quiet more" onClick={() => setWhole(true)}>
          Show all {bytes(text.length)}
        </button>
      )}
    </div>
  );
}
