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
  return {
    scan(bytes, start, end, candidates) {
      scanner.scan(bytes, start, end, (at, isRun) => {
        const cause = isRun ? runCause(bytes, at) : confirm(bytes, at);
        if (cause !== undefined) candidates.add(Math.max(at, start), cause);
      });
      if ((causes & Cause.PHONE) !== 0) addPhones(bytes, start, end, candidates);
      for (const literal of literals) addTexts(bytes, start, end, literal, candidates);
    },
  };
}

/** Hex ids often hold a long run of digits, so a run is searched before its text is. */
function runCause(bytes: Buffer, at: number): number | undefined {
  if (!isLongRun(bytes, at)) return undefined;
  const text = bytes.toString('latin1', Math.max(0, at - RUN_REACH), at + RUN_REACH);
  return RUN_RULES.some(({ find }) => find(text, false).length > 0) ? Cause.RUN : undefined;
}

const RUN_RULES = RULES.filter(({ cause }) => cause === Cause.RUN);
/** Bytes on each side: a run, and the longest hash around digits. */
const RUN_REACH = 192;

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
