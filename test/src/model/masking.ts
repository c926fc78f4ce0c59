import { type TextRange, wholeCharacters } from '../../../src/model/texts.ts';

/** Overwrites a range of a text as the verb `mask` does. */
export function maskRange(bytes: Buffer, text: TextRange, from: number, to: number): void {
  const { start, end } = wholeCharacters(bytes, text, from, to);
  bytes.fill('*', start, end);
}
