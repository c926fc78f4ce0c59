/**
 * The texts inside a JSON value: its strings in their order, joined by a space, without keys, numbers and punctuation. A string
 * that is itself JSON of an object or an array counts as that value. Reads about as much of the value as `characters` need, keeps no
 * stack, and takes what is readable from a value that is broken off.
 */
export function textOfJson(json: string, characters: number): string {
  const whole = /^\s*"/.test(json) ? nestedJson(json) : undefined;
  return stringsOf(whole ?? json, characters);
}

/** The JSON of an object or an array in a JSON string. */
function nestedJson(json: string): string | undefined {
  if (!/^\s*"(?:\s|\\[nrt])*[[{]/.test(json)) return undefined;
  try {
    const text: unknown = JSON.parse(json);
    if (typeof text !== 'string') return undefined;
    JSON.parse(text);
    return text;
  } catch {
    return undefined;
  }
}

function stringsOf(json: string, characters: number): string {
  let text = '';
  for (let open = json.indexOf('"'); open !== -1; ) {
    const close = endOfString(json, open + 1);
    const behind = close + 1;
    if (!isKey(json, behind)) {
      // An escape has up to six characters.
      const most = open + 1 + (characters - text.length + 1) * 6;
      const part = decoded(json.slice(open + 1, Math.min(close, most)));
      text += text === '' ? part : ` ${part}`;
      if (text.length > characters) break;
    }
    open = json.indexOf('"', behind);
  }
  return text;
}

/** The index of the quote that ends a string; the length of the text if it goes on. */
function endOfString(json: string, from: number): number {
  for (let at = json.indexOf('"', from); at !== -1; at = json.indexOf('"', at + 1)) {
    let first = at;
    while (first > from && json[first - 1] === '\\') first--;
    if ((at - first) % 2 === 0) return at;
  }
  return json.length;
}

const COLON = /\s*:/y;

function isKey(json: string, behind: number): boolean {
  COLON.lastIndex = behind;
  return COLON.test(json);
}

const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|u[0-9a-fA-F]{0,3}|([\s\S]?))/g;
const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** The characters of a string; an escape that is broken off is left out. */
function decoded(raw: string): string {
  if (!raw.includes('\\')) return raw;
  return raw.replace(ESCAPE, (_, code?: string, character = '') => {
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16));
    return ESCAPED[character] ?? character;
  });
}
