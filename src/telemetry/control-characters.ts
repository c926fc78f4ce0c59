/**
 * Control characters (C0, DEL, C1), line separators, and characters that change the direction of text. A terminal
 * or a reader of lines acts on them.
 */
const CONTROL = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const CONTROL_EXCEPT_LAYOUT =
  /[^\P{Cc}\n\t]|[\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Escapes every control character in JSON's form, such as `\u001b`. */
export function escapeControls(text: string): string {
  return text.replace(CONTROL, escaped);
}

/** Escapes as `escapeControls`, except line feeds and tabs: for text of several lines. In JSON text the result is equal JSON. */
export function escapeControlsInText(text: string): string {
  return text.replace(CONTROL_EXCEPT_LAYOUT, escaped);
}

/** Replaces every control character by a character of one column, for text whose width counts. */
export function replaceControls(text: string): string {
  return text.replace(CONTROL, '\ufffd');
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
