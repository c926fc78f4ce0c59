import { PAIR_BEFORE_CLOSERS, type Tables } from './byte-scanner.ts';

/**
 * Buckets of anchors. Only anchors whose halves, and those of their pairs, differ in little share a bucket: each
 * also takes every mixture of the halves, and a mixture that is frequent in texts costs a look at other tables.
 */
export const Bucket = {
  /** The anchor of a name directly behind it. */
  NAME: 0x04,
  NAME_BEFORE_CLOSERS: 0x08,
  EMAIL: 0x10,
  KEY: 0x20,
  /** Prefixes of capitals that end with a digit or a dot, and JSON escapes. */
  CAPITALS: 0x40,
  /** `eyJ`, `AIz` and the beginning of a PEM block. */
  OTHER: 0x80,
} as const;

/** Buckets of the bytes of runs: digits, spaces and hyphens, and capitals. */
const Run = { DIGIT: 0x01, CAPITAL: 0x02 } as const;

const CLOSERS = '"\'`] \t\n\r\\';
const ANY_BYTE = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('');

/** Fills the tables of a byte scanner. Bytes are given as characters of Latin-1. */
export class TableBuilder {
  readonly tables: Tables = {
    last: { low: new Uint8Array(16), high: new Uint8Array(16) },
    middle: { low: new Uint8Array(16), high: new Uint8Array(16) },
    first: { low: new Uint8Array(16), high: new Uint8Array(16) },
    kinds: new Uint8Array(256),
    closers: new Uint8Array(256),
    pairs: new Uint8Array(65_536),
  };

  constructor() {
    for (const closer of Buffer.from(CLOSERS)) this.tables.closers[closer] = 1;
  }

  /** Digits, capitals, and a space or hyphen between them. */
  addRuns(): void {
    addTo(this.tables.last, '0123456789 -', Run.DIGIT);
    addTo(this.tables.last, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', Run.CAPITAL);
  }

  /** The anchor counts behind the pair, of which only the second byte may be given. */
  add(bucket: number, pair: string, anchor: string, kind: number): void {
    const second = pair.slice(-1);
    const firsts = pair.length === 1 ? ANY_BYTE : pair.charAt(0);
    addTo(this.tables.first, firsts, bucket);
    addTo(this.tables.middle, second, bucket);
    addTo(this.tables.last, anchor, bucket);
    for (const first of firsts) {
      const index = first.charCodeAt(0) + 256 * second.charCodeAt(0);
      this.tables.pairs[index] = (this.tables.pairs[index] ?? 0) | (kind & ~PAIR_BEFORE_CLOSERS);
    }
    const byte = anchor.charCodeAt(0);
    this.tables.kinds[byte] = (this.tables.kinds[byte] ?? 0) | kind;
  }

  /** The anchor also counts if closers are between the pair and it. */
  addBeforeClosers(pair: string, anchor: string, kind: number): void {
    this.add(Bucket.NAME, pair, anchor, kind | PAIR_BEFORE_CLOSERS);
    addTo(this.tables.first, CLOSERS + pair.slice(-1), Bucket.NAME_BEFORE_CLOSERS);
    addTo(this.tables.middle, CLOSERS, Bucket.NAME_BEFORE_CLOSERS);
    addTo(this.tables.last, anchor, Bucket.NAME_BEFORE_CLOSERS);
  }
}

function addTo(halves: { low: Uint8Array; high: Uint8Array }, bytes: string, bucket: number): void {
  for (const byte of Buffer.from(bytes, 'latin1')) {
    halves.low[byte & 15] = (halves.low[byte & 15] ?? 0) | bucket;
    halves.high[byte >> 4] = (halves.high[byte >> 4] ?? 0) | bucket;
  }
}
