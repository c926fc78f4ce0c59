/**
 * Names whose values are secret, whatever they look like. An entry matches a name that is equal or ends with
 * it as words: `api_key` matches `apiKey`, `X-Api-Key` and `OPENAI_API_KEY`, `token` matches `access_token` but
 * neither `tokens` nor `token_count`. The case of ASCII letters does not count.
 */
export type SecretNames = {
  match(name: string): NameMatch | undefined;
  /** Source of a regular expression for any entry in a text; `startsWord` decides about its start. */
  readonly source: string;
  /** The ends of names as UTF-8 bytes read as Latin-1; what is not ASCII may also be a JSON escape. */
  readonly byteSource: string;
  /** The last two bytes of every name, or the last one if the other may be any, read as Latin-1. */
  readonly byteEnds: readonly string[];
  /** False if no name ends in front of `end`; a true need not be one. */
  mayEnd(bytes: Buffer, end: number): boolean;
};

export type NameMatch = {
  /** Position of the entry's group in the list that was given. */
  readonly group: number;
  /** The name is an entry, without words in front of it: not always the one of the group, which may be the end of that. */
  readonly isExact: boolean;
};

/** Longer names are compared by their end. */
const MAX_NAME = 256;
/** Names that are remembered: an application has few, and they occur in every item. */
const MAX_KNOWN = 2_048;

/** Groups of entries; of several entries that match, the first counts. */
export function secretNames(groups: readonly (readonly string[])[]): SecretNames {
  const entries = groups.flatMap((names, group) => names.map((name) => ({ group, name })));
  const tails = entries.map(({ group, name }) => {
    return { group, pattern: new RegExp(`(?:${sourceOf(name, quoted)})$`, 'i') };
  });
  const lastWords = [
    ...new Set(entries.map(({ name }) => wordsOf(name).at(-1)?.toLowerCase() ?? '')),
  ].map((word) => Buffer.from(word));
  const known = new Map<string, NameMatch | undefined>();
  const matchOf = (name: string): NameMatch | undefined => {
    const starts = tails.map(({ pattern }) => pattern.exec(name)?.index);
    const first = starts.findIndex((start) => start !== undefined && startsWord(name, start));
    const tail = tails[first];
    return tail && { group: tail.group, isExact: starts.includes(0) };
  };
  return {
    match(name) {
      if (name.length > MAX_NAME) return matchOf(name.slice(-MAX_NAME));
      if (known.has(name)) return known.get(name);
      if (known.size === MAX_KNOWN) known.clear();
      const match = matchOf(name);
      known.set(name, match);
      return match;
    },
    source: entries.map(({ name }) => sourceOf(name, quoted)).join('|') || NOTHING,
    byteSource: tailsSource(entries.map(({ name }) => name)) || NOTHING,
    byteEnds: entries.flatMap(({ name }) => byteEndsOf(name)),
    mayEnd: (bytes, end) => lastWords.some((word) => isWordBefore(bytes, end, word)),
  };
}

const NOTHING = '(?!)';

/**
 * A lookbehind tries one alternative after the other, from their ends: entries that end with another one are left
 * out, and the others are grouped by their last letter.
 */
function tailsSource(names: readonly string[]): string {
  const sources = [...new Set(names.map((name) => sourceOf(name, byteSourceOf)))];
  const shortest = sources.filter((source) => {
    return !sources.some((other) => other !== source && source.endsWith(`${SEPARATOR}${other}`));
  });
  const byLast = Map.groupBy(shortest, (source) => /[A-Za-z]$/.exec(source)?.[0] ?? '');
  const groups = Array.from(byLast, ([last, group]) => {
    const heads = group.map((source) => source.slice(0, source.length - last.length));
    return `(?:${heads.join('|')})${last}`;
  });
  return groups.join('|');
}

const SEPARATOR = '[-_. ]?';

/** Between the words of an entry there is a separator, or none as in `apiKey`. */
function sourceOf(name: string, wordSource: (word: string) => string): string {
  return wordsOf(name).map(wordSource).join(SEPARATOR);
}

function wordsOf(name: string): string[] {
  return name.split(/[-_. ]+/).filter((word) => word !== '');
}

/** In both cases. A character that is not ASCII is its UTF-8, or an escape that ends with its last digits. */
function byteEndsOf(name: string): string[] {
  const characters = Array.from(wordsOf(name).at(-1) ?? '');
  const last = characters.at(-1) ?? '';
  if (last >= '\u0080') {
    const code = last.charCodeAt(last.length - 1).toString(16);
    return [Buffer.from(last).toString('latin1').slice(-2), ...casesOfBoth(code.slice(-2))];
  }
  const before = characters.at(-2);
  return before === undefined || before >= '\u0080' ? casesOf(last) : casesOfBoth(before + last);
}

/** Compares ASCII letters without their case, and takes everything else for equal. */
function isWordBefore(bytes: Buffer, end: number, word: Buffer): boolean {
  for (let i = 1; i <= word.length; i++) {
    const wanted = word[word.length - i] as number;
    if (wanted < 0x61 || wanted > 0x7a) return true;
    if (((bytes[end - i] as number) | 0x20) !== wanted) return false;
  }
  return true;
}

function casesOfBoth([first = '', second = '']: string): string[] {
  return casesOf(first).flatMap((a) => casesOf(second).map((b) => a + b));
}

function casesOf(character: string): string[] {
  return /[A-Za-z]/.test(character)
    ? [character.toLowerCase(), character.toUpperCase()]
    : [character];
}

function quoted(word: string): string {
  return word.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

function byteSourceOf(word: string): string {
  return Array.from(word, (character) => {
    if (character < '\u0080') return quoted(character);
    const escapes = Array.from({ length: character.length }, (_, i) => {
      return `\\\\+u${character.charCodeAt(i).toString(16).padStart(4, '0')}`;
    });
    return `(?:${Buffer.from(character).toString('latin1')}|${escapes.join('')})`;
  }).join('');
}

/** Whether a word starts at `at`: at the start, behind a separator, or at a capital behind a small letter. */
export function startsWord(text: string, at: number): boolean {
  const before = text[at - 1];
  if (before === undefined || !/[\p{L}\p{N}]/u.test(before)) return true;
  return /[\p{Ll}\p{N}]/u.test(before) && /\p{Lu}/u.test(text[at] ?? '');
}
