import type { BatchIndex } from '../../src/model/batch-index.ts';
import { anchorsOf } from './anchors.ts';
import { createByteScanner, MAX_SCAN_BYTES } from './byte-scanner.ts';
import { type Candidates, Cause } from './candidates.ts';
import { isLongRun } from './digit-runs.ts';
import { RULES } from './rules.ts';
import type { SecretNames } from './secret-names.ts';

/**
 * Tells where in a body a rule could find something. It knows nothing of the body's texts, so that a body
 * without such a place costs a fraction of a nanosecond a byte.
 *
 *   chunk ─┬─ byte-scanner.ts ─┬─ anchors.ts: prefixes of keys, `@`, `eyJ`, names, escapes ─┬─▶ candidates
 *          │                   └─ digit-runs.ts: long runs of digits and capitals ──────────┤
 *          └─ texts that patterns start with, and phone numbers ────────────────────────────┘
 */
export type Prefilter = {
  /** Adds candidates in [start,end) of the body, which is at most `CHUNK_BYTES`. */
  scan(bytes: Buffer, start: number, end: number, candidates: Candidates): void;
};

export const CHUNK_BYTES = MAX_SCAN_BYTES;

/** Findings that a prefilter looks for. */
export type PrefilterOptions = {
  /** Joined by `|`. */
  readonly causes: number;
  readonly names: SecretNames;
  /** Texts that patterns start with, in ASCII. */
  readonly literals: readonly string[];
};

export function prefilter(
  type: BatchIndex['type'],
  { causes, names, literals }: PrefilterOptions,
): Prefilter {
  const { tables, confirm } = anchorsOf(type, causes, names);
  const scanner = createByteScanner(tables);
  const runs = new RunSearch();
  return {
    scan(bytes, start, end, candidates) {
      runs.enter(bytes, start);
      scanner.scan(bytes, start, end, (at, isRun) => {
        if (isRun && candidates.covers(Math.max(at, start), Cause.RUN)) return;
        const cause = isRun ? runs.causeAt(bytes, at) : confirm(bytes, at);
        if (cause !== undefined) candidates.add(Math.max(at, start), cause);
      });
      if ((causes & Cause.PHONE) !== 0) addPhones(bytes, start, end, candidates);
      for (const literal of literals) addTexts(bytes, start, end, literal, candidates);
    },
  };
}

/**
 * Hex ids, times and vectors of floats often hold a long run of digits, so a run is searched before its text is. They are close
 * together, and a run is reported more than once: the part that was searched last is not searched again.
 */
class RunSearch {
  #bytes: Buffer | undefined;
  /** No finding has a run that starts below this. */
  #searchedTo = 0;

  /** Before a chunk: between two chunks of a body others may be searched. */
  enter(bytes: Buffer, start: number): void {
    if (start === 0 || bytes !== this.#bytes) this.#searchedTo = 0;
    this.#bytes = bytes;
  }

  causeAt(bytes: Buffer, at: number): number | undefined {
    if (at < this.#searchedTo || !isLongRun(bytes, at)) return undefined;
    const text = bytes.toString('latin1', Math.max(0, at - RUN_BEFORE), at + RUN_BEHIND);
    if (RUN_RULES.some(({ find }) => find(text, false).length > 0)) return Cause.RUN;
    this.#searchedTo = at + RUN_BEHIND - LONGEST_RUN;
    return undefined;
  }
}

const RUN_RULES = RULES.filter(({ cause }) => cause === Cause.RUN);
/** Bytes in front of a run: one that is longer, and the longest hash around digits. */
const RUN_BEFORE = 192;
/** Bytes from a run on. More of them cost less for each run, and more for a run on its own. */
const RUN_BEHIND = 512;
/** Bytes of an IBAN in groups of one, the longest finding. */
const LONGEST_RUN = 72;

const PHONE = /[2-9][0-9]{2}[ .-][0-9]{4}(?![0-9])|\+[1-9]/g;
/** Bytes behind a chunk in which a phone number's pattern may end. */
const PHONE_BYTES = 16;

/** Phone numbers are off by default, so a plain regular expression is their prefilter. */
function addPhones(bytes: Buffer, start: number, end: number, candidates: Candidates): void {
  const text = bytes.toString('latin1', start, Math.min(bytes.length, end + PHONE_BYTES));
  for (const { index } of text.matchAll(PHONE)) candidates.add(start + index, Cause.PHONE);
}

function addTexts(
  bytes: Buffer,
  start: number,
  end: number,
  wanted: string,
  candidates: Candidates,
): void {
  const part = bytes.subarray(start, end + wanted.length - 1);
  for (let at = part.indexOf(wanted); at !== -1; at = part.indexOf(wanted, at + 1)) {
    candidates.add(start + at, Cause.PATTERN);
  }
}
