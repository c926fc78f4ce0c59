import { type Candidates, Cause } from './candidates.ts';
import type { RedactionConfig } from './config.ts';
import { type Match, OverlappingMatches } from './match.ts';
import { namedValueFinder } from './named-values.ts';
import { literalPrefix, type PatternFinder, patternFinder } from './patterns.ts';
import { piecesOf, type TextPiece } from './pieces.ts';
import type { Finding } from './rules/finding.ts';
import { CLOUD_NAMES, type RedactionRule, RULES } from './rules.ts';
import { type SecretNames, secretNames } from './secret-names.ts';
import { byteAt, decodedText, formsOf, outsideEscapes, type TextForm } from './text-forms.ts';
import { MAX_BEFORE, type TextWindow, windowsOf, withEnd } from './windows.ts';

/** Whose match it is, and what happens to it. */
type Verdict = Pick<Match, 'rule' | 'action'>;

const KEYS: Verdict = { rule: 'keys', action: 'mask' };

/** The bytes [start,end) of a text, without quotes. */
export type TextBytes = {
  readonly start: number;
  readonly end: number;
  /** It is spelled as in JSON and has a backslash. */
  readonly isEscaped: boolean;
};

/** The most bytes of a window in which the end of a value is looked for, but for those up to the next delimiter. */
const MAX_OPEN = 262_144;

/**
 * Searches texts for everything that one configuration redacts.
 *
 *   text ─┬─ piece by piece (pieces.ts) ── each form (text-forms.ts) ── patterns
 *         └─ windows around candidates ── each form ─┬─ built-in rules that the candidates name
 *                                                    └─ values behind secret names
 */
export class Search {
  /** Findings that the prefilter looks for, joined by `|`. */
  readonly causes: number;
  readonly names: SecretNames;
  readonly literals: readonly string[];
  /** A pattern has no literal prefix: candidates do not tell where it may match. */
  readonly needsEveryText: boolean;
  readonly #rules: readonly (RedactionRule & Verdict)[];
  readonly #patterns: readonly (Verdict & { readonly find: PatternFinder })[];
  /** By the group of the name. */
  readonly #nameVerdicts: readonly Verdict[];
  readonly #findNamedValues: ReturnType<typeof namedValueFinder>;

  constructor({ rules, keys, keys_action, patterns }: RedactionConfig) {
    this.#rules = RULES.flatMap((rule) => {
      const action = rules[rule.name];
      return action === 'off' ? [] : [{ ...rule, rule: rule.name, action }];
    });
    const groups = [{ names: keys, rule: 'keys', action: keys_action }];
    if (rules.cloud_keys !== 'off') {
      groups.push({ names: [...CLOUD_NAMES], rule: 'cloud_keys', action: rules.cloud_keys });
    }
    this.names = secretNames(groups.map(({ names }) => names));
    this.#nameVerdicts = groups;
    this.#findNamedValues = namedValueFinder(this.names);
    this.#patterns = patterns.map(({ name, pattern, action }) => {
      return { find: patternFinder(pattern), rule: name, action };
    });
    const literals = patterns.map(({ pattern }) => literalPrefix(pattern));
    this.literals = literals.filter((literal) => literal !== undefined);
    this.needsEveryText = this.literals.length < literals.length;
    const hasNames = groups.some(({ names }) => names.length > 0);
    this.causes = this.#rules.reduce(
      (causes, { cause }) => causes | cause,
      (hasNames ? Cause.NAME : 0) | (this.literals.length > 0 ? Cause.PATTERN : 0),
    );
  }

  /** A text below a secret name; `group` is that of the name. */
  wholeText(bytes: Buffer, { start, end, isEscaped }: TextBytes, group: number): Match {
    const { rule, action } = this.#nameVerdicts[group] ?? KEYS;
    // Only a hash is made of the characters, and a text may have as many as a body.
    const text = action === 'hash' ? decodedText(bytes, start, end, isEscaped) : '';
    return { start, end, rule, action, text, isNumber: false };
  }

  /**
   * The matches in a text in their order, without overlaps. It yields some of them, or none, after at most a
   * few milliseconds: a text may be as long as the body. The caller may overwrite yielded matches at once.
   */
  *matches(bytes: Buffer, text: TextBytes, candidates: Candidates): Generator<readonly Match[]> {
    const found = new OverlappingMatches();
    const hasLiteral = (candidates.causesIn(text.start, text.end) & Cause.PATTERN) !== 0;
    const hasPatterns = this.#patterns.length > 0 && (this.needsEveryText || hasLiteral);
    const pieces = piecesOf(bytes, text, hasPatterns);
    let piece = pieces.next();
    /** Patterns were searched for in front of it. */
    const unsearched = () => (piece.done === true ? text.end : piece.value.start);
    let last = { start: text.start, end: text.start };
    for (const window of windowsOf(bytes, text, candidates)) {
      if (window.start >= last.start && window.end <= last.end) continue;
      for (; piece.done !== true && piece.value.start <= window.start; piece = pieces.next()) {
        yield* this.#patternMatches(bytes, piece.value, found);
      }
      yield found.takeUntil(Math.min(window.start, last.start, unsearched()) - MAX_BEFORE);
      const end = yield* this.#windowMatches(bytes, text, window, found, candidates);
      if (end > last.end) last = { start: window.start, end };
    }
    while (piece.done !== true) {
      yield* this.#patternMatches(bytes, piece.value, found);
      piece = pieces.next();
      yield found.takeUntil(unsearched());
    }
    yield found.takeUntil(text.end);
  }

  *#patternMatches(
    bytes: Buffer,
    { start, end, isEscaped, firstMatch }: TextPiece,
    found: OverlappingMatches,
  ): Generator<readonly Match[]> {
    for (const form of formsOf(bytes, start, end, isEscaped)) {
      for (const pattern of this.#patterns) {
        for (const range of pattern.find(form.text)) {
          const match = range && matchOf(form, range, pattern);
          if (match !== undefined && match.start >= firstMatch) found.add(match);
          else if (range === undefined) yield [];
        }
      }
    }
  }

  /** A window, and more of the text if a match is open at its end. Returns up to where it searched. */
  *#windowMatches(
    bytes: Buffer,
    text: TextBytes,
    window: TextWindow,
    found: OverlappingMatches,
    candidates: Candidates,
  ): Generator<readonly Match[], number> {
    let current = window;
    for (;;) {
      const { matches, open } = this.#inWindow(bytes, text, current);
      const size = current.end - current.start;
      if (open !== undefined && size < MAX_OPEN) {
        const end = Math.min(current.end + 3 * size, current.start + MAX_OPEN);
        current = withEnd(bytes, text, current, end, candidates);
        yield [];
        continue;
      }
      for (const match of matches) found.add(match);
      if (open === undefined) return current.end;
      // The end of a value that long is not looked for: the rest of the text goes with it.
      found.add({ ...open, end: text.end });
      return text.end;
    }
  }

  /** The matches in a window, and the last that may go on behind it. */
  #inWindow(
    bytes: Buffer,
    text: TextBytes,
    { start, end, causes }: TextWindow,
  ): { matches: Match[]; open: Match | undefined } {
    const isCut = end < text.end;
    const matches: Match[] = [];
    let open: Match | undefined;
    const add = (form: TextForm, range: Finding, verdict: Verdict, isNumber: boolean) => {
      const match = matchOf(form, range, verdict, isNumber);
      if (match !== undefined) matches.push(match);
      return match;
    };
    for (const form of formsOf(bytes, start, end, text.isEscaped)) {
      for (const rule of this.#rules) {
        if ((rule.cause & causes) === 0) continue;
        for (const range of rule.find(form.text, isCut)) {
          const match = add(form, range, rule, false);
          if (isCut && rule.isOpenEnded === true && match?.end === end) open = match;
        }
      }
      if ((Cause.NAME & causes) === 0) continue;
      const named = this.#findNamedValues(form.text);
      for (const value of named.values) {
        add(form, value, this.#nameVerdicts[value.group] ?? KEYS, value.isNumber);
      }
      if (isCut && named.open !== undefined) {
        open = openMatch(form, named.open, this.#nameVerdicts[named.open.group] ?? KEYS);
      }
    }
    return { matches, open };
  }
}

/** A value that may go on behind its window, whatever of it is in there. */
function openMatch(form: TextForm, range: Finding, { rule, action }: Verdict): Match {
  const start = outsideEscapes(form.text, range).start;
  const text = form.text.slice(start);
  return {
    start: byteAt(form, start),
    end: byteAt(form, form.text.length),
    rule,
    action,
    text,
    isNumber: false,
  };
}

/** Undefined if nothing of the range is outside of escapes. */
function matchOf(
  form: TextForm,
  range: Finding,
  { rule, action }: Verdict,
  isNumber = false,
): Match | undefined {
  const { start, end } = outsideEscapes(form.text, range);
  if (start >= end) return undefined;
  const text = form.text.slice(start, end);
  return { start: byteAt(form, start), end: byteAt(form, end), rule, action, text, isNumber };
}
