import { cutAt } from '../../model/preview.ts';

/** Scripts without spaces between words: each letter is a word, and a word of several letters is found as a phrase. */
const LETTERS = String.raw`[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]`;
const WORD = String.raw`[[\p{L}\p{N}\p{M}]--${LETTERS}]`;
const WORDS = new RegExp(String.raw`${LETTERS}\p{M}*|${WORD}+`, 'gv');
/** The part of a word at the end of a text. */
const LAST_WORD = new RegExp(String.raw`(?:${LETTERS}\p{M}*|${WORD}+)$`, 'v');
const FIRST_WORD = new RegExp(`^${WORD}`, 'v');
const FIRST_MARK = /^\p{M}/u;
const LAST_LETTER = new RegExp(String.raw`${LETTERS}\p{M}*$`, 'v');

/** Characters (UTF-16 code units) of a word. Longer ones, such as encoded images, are found by their beginning. */
export const WORD_CHARACTERS = 64;

/**
 * The words of a text: runs of letters and digits in small letters. Both stores and the searches split texts here, so that
 * neither the tokenizer of a database nor its locale decides what is found.
 */
export function wordsOf(text: string): string[] {
  const words = text.normalize('NFKC').toLowerCase().match(WORDS) ?? [];
  return words.map((word) => cutAt(word, WORD_CHARACTERS));
}

/**
 * The words that lie wholly within the first bytes of a text in UTF-8. A character or a word that the limit divides is left out.
 */
export function firstWords(text: string, bytes: number): string[] {
  const end = endOfBytes(text, bytes);
  if (end === text.length) return wordsOf(text);
  const begin = text.slice(0, end);
  return wordsOf(isDivided(begin, text.slice(end, end + 2)) ? begin.replace(LAST_WORD, '') : begin);
}

function isDivided(begin: string, behind: string): boolean {
  if (FIRST_MARK.test(behind)) return true;
  return FIRST_WORD.test(behind) && !LAST_LETTER.test(begin);
}

/** The index behind the last character that fits into the bytes. */
function endOfBytes(text: string, bytes: number): number {
  // A code unit has at most three bytes in UTF-8.
  if (text.length * 3 <= bytes) return text.length;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes));
  return read;
}

/** Words as the stores keep them: each between two spaces, so that a phrase is a part of the text. */
export function lineOfWords(words: readonly string[]): string {
  return words.length === 0 ? '' : ` ${words.join(' ')} `;
}
