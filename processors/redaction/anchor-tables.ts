import { PAIR_BEHIND, type Tables } from './byte-scanner.ts';

/** Classes of the characters of runs; no byte outside them has both halves of one. */
const Run = { DIGIT: 0x01, CAPITAL_A_TO_O: 0x02, CAPITAL_P_TO_Z: 0x04, SEPARATOR: 0x08 } as const;

/**
 * Classes of anchors, by the upper half of the byte. Several anchors of one class also give it to bytes that have
 * the upper half of one and the lower half of another; `kinds` is 0 for those.
 */
const ANCHOR_CLASS: Readonly<Record<number, number>> = { 3: 0x40, 4: 0x20, 5: 0x10 };
const OTHER_ANCHOR_CLASS = 0x80;

/** Kind of all anchors whose pair is behind them. */
const BEHIND = 64;

/** Fills the tables of a byte scanner. Bytes are given as characters of Latin-1. */
export class TableBuilder {
  readonly tables: Tables = {
    low: new Uint8Array(16),
    high: new Uint8Array(16),
    kinds: new Uint8Array(256),
    closers: new Uint8Array(256),
    pairs: new Uint8Array(65_536),
  };

  constructor() {
    for (const closer of Buffer.from('"\'`] \t\n\r\\')) this.tables.closers[closer] = 1;
  }

  /** Digits, capitals, and a space or hyphen between them. */
  addRuns(): void {
    for (const digit of Buffer.from('0123456789')) this.#addClass(digit, Run.DIGIT);
    for (const letter of Buffer.from('ABCDEFGHIJKLMNO')) this.#addClass(letter, Run.CAPITAL_A_TO_O);
    for (const letter of Buffer.from('PQRSTUVWXYZ')) this.#addClass(letter, Run.CAPITAL_P_TO_Z);
    for (const separator of Buffer.from(' -')) this.#addClass(separator, Run.SEPARATOR);
  }

  addAnchor(anchor: string, kind: number): void {
    const byte = anchor.charCodeAt(0);
    this.#addClass(byte, ANCHOR_CLASS[byte >> 4] ?? OTHER_ANCHOR_CLASS);
    this.tables.kinds[byte] = (this.tables.kinds[byte] ?? 0) | kind;
  }

  /** Anchors of this kind count behind the pair, of which only the second byte may be given. */
  addPair(pair: string, kind: number): void {
    const second = pair.charCodeAt(pair.length - 1);
    const [from, to] = pair.length === 1 ? [0, 255] : [pair.charCodeAt(0), pair.charCodeAt(0)];
    for (let first = from; first <= to; first++) {
      const index = first + 256 * second;
      this.tables.pairs[index] = (this.tables.pairs[index] ?? 0) | kind;
    }
  }

  /** The anchor counts in front of the pair. */
  addBehind(anchor: string, pair: string): void {
    this.addAnchor(anchor, BEHIND | PAIR_BEHIND);
    this.addPair(pair, BEHIND);
  }

  #addClass(byte: number, bit: number): void {
    this.tables.low[byte & 15] = (this.tables.low[byte & 15] ?? 0) | bit;
    this.tables.high[byte >> 4] = (this.tables.high[byte >> 4] ?? 0) | bit;
  }
}
