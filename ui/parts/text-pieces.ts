/** Characters of one piece: an element with more takes long to lay out. */
const PIECE = 10_000;
/** A line break in the last part of a piece ends it. */
const BREAK_WITHIN = 2_000;

/** Splits a long text into pieces that show below each other, at line breaks if possible. */
export function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length; ) {
    let end = Math.min(from + PIECE, text.length);
    if (end < text.length) {
      const line = text.lastIndexOf('\n', end - 1);
      if (line >= end - BREAK_WITHIN) end = line + 1;
      else if (isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    }
    // The line break between two pieces is the one between their elements.
    const piece = text.slice(from, end);
    pieces.push(end < text.length && piece.endsWith('\n') ? piece.slice(0, -1) : piece);
    from = end;
  }
  return pieces;
}

/** The beginning of a text, which ends between characters. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text;
  return text.slice(0, isHighSurrogate(text.charCodeAt(length - 1)) ? length - 1 : length);
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** The beginning of a name or an id that a client gave; null is none. A link must have a text that shows. */
export function nameText(name: string | null, length = 300): string {
  if (name === null) return '(no name)';
  return isBlank(name) ? '(blank)' : beginning(name, length);
}

/** Whether nothing of a text shows. */
export function isBlank(text: string): boolean {
  return BLANK.test(text);
}

/** Nothing but white space, control characters and those that format, such as zero-width ones. */
const BLANK = /^[\s\p{Cc}\p{Cf}]*$/u;

/** A text with a visible sign in the place of each control character except tabs and line breaks. */
export function visible(text: string): string {
  return text.replace(CONTROL, (found) => {
    const code = found.charCodeAt(0);
    return String.fromCharCode(code === 0x7f ? 0x2421 : 0x2400 + code);
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that a browser does not show.
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/**
 * A text of a client for a place without elements, such as an option, a tooltip or the title of the window. Its direction is its own, and
 * changes nothing around it.
 */
export function isolated(text: string): string {
  if (!MAY_TURN.test(text)) return text;
  return `\u2068${text.replace(DIRECTION, '')}\u2069`;
}

/** Characters that are read from right to left, or change the direction. */
const MAY_TURN =
  /[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/** Characters that embed, override or isolate a direction. One that ends an isolate would end that of the text. */
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g;
