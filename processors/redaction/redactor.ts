import type { Format, ReceivedBatch } from '../../src/model/batch.ts';
import type { BatchIndex } from '../../src/model/batch-index.ts';
import {
  itemRangeOf,
  visitSharedTextsInTurns,
  visitTextsInTurns,
} from '../../src/model/formats.ts';
import { Mark, type TextField, type TextVisitor } from '../../src/model/texts.ts';
import {
  type EditedRange,
  isOpen,
  type MaskedRange,
  mask,
  type Replacement,
  replace,
  SHARED,
} from '../../src/model/verbs.ts';
import { Candidates } from './candidates.ts';
import type { RedactionConfig } from './config.ts';
import type { Match } from './match.ts';
import { CHUNK_BYTES, type Prefilter, prefilter } from './prefilter.ts';
import { replacementOf } from './replacement.ts';
import { Search } from './search.ts';
import type { NameMatch } from './secret-names.ts';
import { formsOf } from './text-forms.ts';
import { TextList } from './text-list.ts';

/**
 * Redacts batches by one configuration.
 *
 *   body ── prefilter ── candidates ── items that have some ── their texts ── search ── mask, replace
 *                            └─ none: the body stays as it is
 */
export class Redactor {
  readonly #search: Search;
  readonly #fields: ReadonlySet<TextField>;
  readonly #hashKey: string | undefined;
  readonly #matched: (rule: string) => void;
  readonly #prefilters = new Map<Format, Prefilter>();

  /** `matched` is called for every match, with its rule. */
  constructor(config: RedactionConfig, matched: (rule: string) => void) {
    this.#matched = matched;
    this.#search = new Search(config);
    this.#fields = new Set(config.fields);
    this.#hashKey = config.hash_key;
  }

  /** Yields after at most a few milliseconds of work, so that other requests can be served. */
  *redact(batch: ReceivedBatch): Generator<undefined, void> {
    const { index, format } = batch;
    const candidates = yield* this.#candidatesIn(format, index.bytes);
    // The prefilter finds the name of an attribute by the value behind it.
    const needsEveryItem = this.#search.needsEveryText || hasLateKeys(index);
    if (candidates.count === 0 && !needsEveryItem) return;
    for (let item = 0; item < index.count; item++) {
      const { start, end } = itemRangeOf(index, item);
      if (!isOpen(batch, item) || !(needsEveryItem || candidates.has(start, end))) continue;
      yield* this.#redactItem(batch, item, candidates);
      // A small item has no turn of its own, and a batch may have a thousand of them.
      yield;
    }
    yield* this.#redactItem(batch, SHARED, candidates);
  }

  /** The same for a text of its own; returns it with its matches redacted. */
  *text(text: string): Generator<undefined, string> {
    const bytes = Buffer.from(text);
    const candidates = yield* this.#candidatesIn('native', bytes);
    const whole = { start: 0, end: bytes.length, isEscaped: false };
    const parts: Buffer[] = [];
    let copied = 0;
    for (const matches of this.#search.matches(bytes, whole, candidates)) {
      for (const match of matches) {
        const { start, end } = match;
        this.#matched(match.rule);
        const asterisks = Buffer.alloc(end - start, '*');
        parts.push(bytes.subarray(copied, start), replacementOf(match, this.#hashKey) ?? asterisks);
        copied = end;
      }
      yield;
    }
    if (parts.length === 0) return text;
    return Buffer.concat([...parts, bytes.subarray(copied)]).toString();
  }

  *#candidatesIn(format: Format, bytes: Buffer): Generator<undefined, Candidates> {
    const known = this.#prefilters.get(format) ?? prefilter(format, this.#search);
    this.#prefilters.set(format, known);
    const candidates = new Candidates();
    for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
      known.scan(bytes, start, Math.min(bytes.length, start + CHUNK_BYTES), candidates);
      yield;
    }
    candidates.sort();
    return candidates;
  }

  *#redactItem(
    batch: ReceivedBatch,
    item: number,
    candidates: Candidates,
  ): Generator<undefined, void> {
    const { bytes } = batch.index;
    const { texts, numbers } = yield* this.#visited(batch, item, candidates);
    for (let i = 0; i < numbers.length; i += NUMBERS_PER_TURN) {
      mask(batch, numbers.slice(i, i + NUMBERS_PER_TURN));
      yield;
    }
    let count = 0;
    for (const text of texts) {
      if (text.group !== undefined) {
        this.#apply(batch, item, [this.#search.wholeText(bytes, text, text.group)]);
      } else {
        const isLong = text.end - text.start > LONG_TEXT;
        for (const matches of this.#search.matches(bytes, text, candidates)) {
          this.#apply(batch, item, matches);
          if (isLong) yield;
        }
      }
      if (++count % TEXTS_PER_TURN === 0) yield;
    }
  }

  /** The texts of an item that are searched or below secret names, and its secret numbers. */
  *#visited(
    { format, index }: ReceivedBatch,
    item: number,
    candidates: Candidates,
  ): Generator<undefined, Visited> {
    const { bytes } = index;
    const { names, needsEveryText } = this.#search;
    const isJson = format !== 'otlp_proto';
    const texts = new TextList();
    const numbers: MaskedRange[] = [];
    const secrets = new SecretKeys();
    const nameAt = (start: number, end: number, isEscaped: boolean) => {
      // Hot path: the bytes tell of most keys that they are no secret name.
      if (!isEscaped && !names.mayEnd(bytes, end)) return undefined;
      return names.match(
        isEscaped ? unescaped(bytes, start, end) : bytes.toString('utf8', start, end),
      );
    };
    const visitor: TextVisitor = {
      marks: (start, end, isFixed) => {
        const isEscaped = isJson && hasBackslash(bytes, start, end);
        // A key is a text, too: of a map from addresses, for instance.
        if (!isFixed && (needsEveryText || candidates.has(start, end))) {
          texts.add(start, end, isEscaped, undefined);
        }
        return secrets.enter(start, nameAt(start, end, isEscaped));
      },
      text: ({ field, start, end, isEscaped, mark, keyStart }) => {
        if (start === end || !this.#fields.has(field)) return;
        const isSecret = mark !== Mark.NONE;
        const group = isSecret ? secrets.groupOf(keyStart) : undefined;
        if (isSecret || needsEveryText || candidates.has(start, end)) {
          texts.add(start, end, isEscaped, group);
        }
      },
      scalar: ({ field, start, end, form }) => {
        if (!this.#fields.has(field)) return;
        this.#matched('keys');
        numbers.push({ item, start, end, form });
      },
    };
    yield* item === SHARED
      ? visitSharedTextsInTurns(index, visitor)
      : visitTextsInTurns(index, item, visitor);
    return { texts, numbers };
  }

  #apply(batch: ReceivedBatch, item: number, matches: readonly Match[]): void {
    const masked: EditedRange[] = [];
    const replaced: Replacement[] = [];
    for (const match of matches) {
      const { start, end } = match;
      this.#matched(match.rule);
      const bytes = replacementOf(match, this.#hashKey);
      if (bytes === undefined) masked.push({ item, start, end });
      else replaced.push({ item, start, end, bytes });
    }
    mask(batch, masked);
    replace(batch, replaced);
  }
}

/** Longer texts are searched in several turns. */
const LONG_TEXT = 4_096;
const TEXTS_PER_TURN = 64;
const NUMBERS_PER_TURN = 4_096;

type Visited = { readonly texts: TextList; readonly numbers: readonly MaskedRange[] };

/** The secret keys of an item, while it is visited. */
class SecretKeys {
  /** By the start of the key; those of group 0 are left out. */
  readonly #groups = new Map<number, number>();

  enter(start: number, match: NameMatch | undefined): Mark {
    if (match === undefined) return Mark.NONE;
    if (match.group > 0) this.#groups.set(start, match.group);
    return match.isExact ? Mark.ALL : Mark.TEXTS;
  }

  /** The group of a text's nearest key, or 0 if only a key around it is a secret name. */
  groupOf(keyStart: number): number {
    return this.#groups.get(keyStart) ?? 0;
  }
}

function hasLateKeys(index: BatchIndex): boolean {
  return index.type === 'otlp_proto' && index.lateKeys === true;
}

function hasBackslash(bytes: Buffer, start: number, end: number): boolean {
  // A loop over a short text costs less than a view of it.
  if (end - start > 64) return bytes.subarray(start, end).includes(BACKSLASH);
  for (let at = start; at < end; at++) if (bytes[at] === BACKSLASH) return true;
  return false;
}

const BACKSLASH = 0x5c;

function unescaped(bytes: Buffer, start: number, end: number): string {
  const [form] = formsOf(bytes, start, end, true);
  return form?.text ?? '';
}
