import { lineOfWords, wordsOf } from './words.ts';

/**
 * The index of a store has tokens instead of words: hashes of a project and a text. So it holds no text, and the search of a
 * project does not pass through the words of others. Two texts may share a token: a search checks the rows that it finds.
 */
export type Token = number;

/** Tokens that a row has all of, if it matches. */
export type TokenBranch = readonly Token[];

/** Short texts of an observation that text search looks into as well. */
export type SearchLabels = {
  /** Names and messages, found by any part of them. */
  readonly texts: readonly string[];
  /** Found by their beginning. */
  readonly ids: readonly string[];
};

/** Characters of a part of a label. */
const PART = 3;
/** Lengths of the beginnings of ids that have a token. */
const BEGINNINGS = [12, 6, PART] as const;
/** Characters of all labels of an observation; one with more is a candidate of every search. */
const LABEL_CHARACTERS = 4096;
/** The most tokens of a branch: fewer find more candidates. */
const MAX_TOKENS = 8;

const KIND = { WORD: 'w', PART: 'p', BEGINNING: 'b', OVERFLOW: 'o' } as const;

export function wordTokens(project: string, words: Iterable<string>): Set<Token> {
  const seed = seedOf(project);
  const tokens = new Set<Token>();
  for (const word of words) tokens.add(hashOf(KIND.WORD + word, seed));
  return tokens;
}

export function labelTokens(project: string, { texts, ids }: SearchLabels): Set<Token> {
  const seed = seedOf(project);
  const tokens = new Set<Token>();
  if (texts.reduce((sum, { length }) => sum + length, 0) > LABEL_CHARACTERS) {
    tokens.add(hashOf(KIND.OVERFLOW, seed));
  } else {
    for (const text of texts) addParts(tokens, text, seed);
  }
  for (const id of ids) {
    const folded = foldCase(id);
    for (const length of BEGINNINGS) {
      if (folded.length < length) continue;
      tokens.add(hashOf(KIND.BEGINNING + folded.slice(0, length), seed));
    }
  }
  return tokens;
}

/**
 * The branches of a text term of a query: every row that matches has all tokens of one of them. Undefined if the index does not help.
 * `inJson` is the text as JSON has it.
 */
export function branchesOf(
  project: string,
  text: string,
  inJson: string,
): readonly TokenBranch[] | undefined {
  const folded = foldCase(text);
  // A pattern of SQLite ends at a NUL character.
  if (folded.length < PART || folded.includes('\0')) return undefined;
  const seed = seedOf(project);
  const beginning = BEGINNINGS.find((length) => length <= folded.length) ?? PART;
  const branches: TokenBranch[] = [
    [...wordTokens(project, wordsOf(text))],
    [...addParts(new Set(), text, seed)],
    ...(inJson === text ? [] : [[...addParts(new Set(), inJson, seed)]]),
    [hashOf(KIND.BEGINNING + folded.slice(0, beginning), seed)],
    [hashOf(KIND.OVERFLOW, seed)],
  ];
  return branches.filter(({ length }) => length > 0).map((branch) => branch.slice(0, MAX_TOKENS));
}

/** The phrase that the words of an observation contain, if it matches; undefined for a text without words. */
export function phraseOf(text: string): string | undefined {
  const words = wordsOf(text);
  return words.length === 0 ? undefined : lineOfWords(words);
}

function addParts(tokens: Set<Token>, text: string, seed: number): Set<Token> {
  const folded = foldCase(text);
  for (let at = 0; at + PART <= folded.length; at++) {
    tokens.add(hashOf(KIND.PART + folded.slice(at, at + PART), seed));
  }
  return tokens;
}

/** Small letters of ASCII, as the stores compare names. */
function foldCase(text: string): string {
  return text.toWellFormed().replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

let seeded: { readonly project: string; readonly seed: number } | undefined;

function seedOf(project: string): number {
  if (seeded?.project !== project) seeded = { project, seed: hashOf(project, 0) >>> 0 };
  return seeded.seed;
}

/** 53 bits of the text (cyrb53, public domain). Hot path: a cryptographic hash takes ten times as long. */
function hashOf(text: string, seed: number): Token {
  let a = 0xdeadbeef ^ seed;
  let b = 0x41c6ce57 ^ seed;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 2654435761);
    b = Math.imul(b ^ code, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return 4294967296 * (2097151 & b) + (a >>> 0);
}
