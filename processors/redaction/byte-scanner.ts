/**
 * Searches bytes for anchors and for long runs, 16 bytes at a time. It is a WebAssembly module because SIMD
 * instructions are out of JavaScript's reach, except by a regular expression: that needs a copy of the bytes
 * in a string, and such strings fill a young generation that is kept small (src/cli/heap.ts).
 *
 *   16 bytes ─▶ classes, by tables of their halves ─┬─ anchor: may it follow the pair beside it? ─▶ position
 *                                                   └─ 13 digits, or 15 of a run, in a row? ──────▶ position
 *
 * `BODY` is that loop; `Tables` says what it searches for.
 */
export type ByteScanner = {
  /** Calls back for every anchor in [start,end), and once or more for every run that ends in it. */
  scan(bytes: Buffer, start: number, end: number, found: FoundAt): void;
};

type FoundAt = (at: number, isRun: boolean) => void;

/** Bits of an anchor that say where its pair is: in front of it, if neither bit is set. */
export const PAIR_BEHIND = 1;
/** The pair is in front of the closers (quotes, brackets, spaces) that precede the anchor. */
export const PAIR_BEFORE_CLOSERS = 2;

export type Tables = {
  /**
   * Classes by the lower half of a byte, and by the upper half: a byte has the classes that both have. The lower
   * four classes are those of runs, the first of them that of digits; the upper four are those of anchors.
   */
  readonly low: Uint8Array;
  readonly high: Uint8Array;
  /** Bits of every anchor; 0 for a byte that only has the class of one. */
  readonly kinds: Uint8Array;
  /** 1 for every closer. */
  readonly closers: Uint8Array;
  /** By a pair, the bits of the anchors that it makes a find: `first + 256 * second`. */
  readonly pairs: Uint8Array;
};

/** Bytes that `scan` can be given at a time. */
export const MAX_SCAN_BYTES = 65_536;

export function createByteScanner(tables: Tables): ByteScanner {
  const { memory, scan } = new WebAssembly.Instance(MODULE).exports as Exports;
  const space = new Uint8Array(memory.buffer);
  space.set(tables.low, Address.LOW);
  space.set(tables.high, Address.HIGH);
  space.set(tables.kinds, Address.KINDS);
  space.set(tables.closers, Address.CLOSERS);
  space.set(tables.pairs, Address.PAIRS);
  const output = new Uint32Array(memory.buffer, Address.OUTPUT);
  return {
    scan(bytes, start, end, found) {
      // The bytes in front of the part decide about its first anchors and runs.
      const from = Math.max(0, start - BYTES_BEFORE);
      const part = bytes.subarray(from, Math.min(bytes.length, end + BYTES_BEHIND));
      space.set(part, Address.INPUT);
      space.fill(0, Address.INPUT + part.length, Address.INPUT + part.length + BYTES_BEHIND);
      const shift = from - Address.INPUT;
      const first = Math.max(start - RUN_BYTES, from) - shift;
      const count = scan(first, end - shift);
      for (let i = 0; i < count; i++) {
        const address = output[i] as number;
        const at = (address & ~RUN_FLAG) + shift;
        const isRun = (address & RUN_FLAG) !== 0;
        if (at < end && (at >= start || isRun)) found(at, isRun);
      }
    },
  };
}

/** The types of Node leave WebAssembly out. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

type Exports = {
  readonly memory: { readonly buffer: ArrayBuffer };
  scan(from: number, to: number): number;
};

/** Bytes in front of the first one that are copied: closers and a pair. */
const BYTES_BEFORE = 64;
/** Bytes behind the last one: a pair, and the rest of 16. */
const BYTES_BEHIND = 32;
/** A run that ends in the first 16 bytes may start in the 16 before. */
const RUN_BYTES = 16;
const RUN_FLAG = 0x40000000;
/** The shortest run, and the shortest of digits only. Both start within 16 bytes before the ones that end it. */
const RUN_CHARACTERS = 15;
const RUN_DIGITS = 13;
const RUN_CLASSES = 0x0f;
const DIGIT_CLASS = 0x01;
const ANCHOR_CLASSES = 0xf0;

/** The memory's layout. */
const Address = {
  LOW: 0,
  HIGH: 16,
  KINDS: 256,
  CLOSERS: 512,
  PAIRS: 1_024,
  INPUT: 66_560,
  /** Every byte, and every 16 bytes of a run, may be a find. */
  OUTPUT: 132_608,
} as const;
const PAGES = 7;

/** The function's locals: two parameters, then numbers, then vectors. */
const Local = {
  FROM: 0,
  TO: 1,
  OUT: 2,
  /** Bits for the 16 bytes before: which of them belong to runs. */
  BEFORE: 3,
  /** Bits for the bytes that are left. */
  BITS: 4,
  RUNS: 5,
  DIGITS_BEFORE: 6,
  DIGITS: 7,
  ANCHOR: 8,
  KIND: 9,
  PAIR: 10,
  LOW: 11,
  HIGH: 12,
  CLASSES: 13,
} as const;

/** Part of a WebAssembly binary. */
type Code = readonly (number | Code)[];

const get = (local: number): Code => [0x20, local];
const set = (local: number): Code => [0x21, local];
const i32 = (value: number): Code => [0x41, signed(value)];
const load8 = (offset: number): Code => [0x2d, 0, unsigned(offset)];
const load16 = (offset: number): Code => [0x2f, 0, unsigned(offset)];
const STORE: Code = [0x36, 0, 0];
const block = (...body: Code): Code => [0x02, 0x40, body, 0x0b];
const loop = (...body: Code): Code => [0x03, 0x40, body, 0x0b];
const when = (...body: Code): Code => [0x04, 0x40, body, 0x0b];
const branch = (depth: number): Code => [0x0c, depth];
const branchIf = (depth: number): Code => [0x0d, depth];
const GREATER_OR_EQUAL = 0x4f;
const TRAILING_ZEROS = 0x68;
const ADD = 0x6a;
const SUBTRACT = 0x6b;
const AND = 0x71;
const OR = 0x72;
const SHIFT_LEFT = 0x74;
const SHIFT_RIGHT = 0x76;
const loadVector = (offset: number): Code => [0xfd, 0x00, 0, unsigned(offset)];
const sixteen = (byte: number): Code => [0xfd, 0x0c, Array<number>(16).fill(byte)];
const LOOK_UP: Code = [0xfd, 0x0e];
const NOT_EQUAL: Code = [0xfd, 0x24];
const AND_VECTOR: Code = [0xfd, 0x4e];
const BITMASK: Code = [0xfd, 0x64];
const SHIFT_BYTES_RIGHT: Code = [0xfd, 0x6d];

const add = (local: number, amount: number): Code => [get(local), i32(amount), ADD, set(local)];
const emit = (...address: Code): Code => [get(Local.OUT), address, STORE, add(Local.OUT, 4)];

/** A bit for each of the 16 bytes that has one of the classes. */
const bitsOf = (classes: number): Code => [
  [get(Local.CLASSES), sixteen(classes), AND_VECTOR, sixteen(0), NOT_EQUAL, BITMASK],
];

/** Leaves only the bits of a local that have another one at this distance. */
const followedBy = (local: number, distance: number): Code => [
  [get(local), get(local), i32(distance), SHIFT_RIGHT, AND, set(local)],
];

/** Leaves only the bits that start as many in a row: 2, 4 and 8, then as many more as are missing. */
const inARow = (local: number, count: number): Code => [
  ...[followedBy(local, 1), followedBy(local, 2), followedBy(local, 4)],
  followedBy(local, count - 8),
];

/** The bits of the last 32 bytes. Those of the last 16 are kept for the next 16 bytes. */
const withBefore = (classes: number, before: number, joined: number): Code => [
  ...[bitsOf(classes), set(Local.BITS)],
  ...[get(before), get(Local.BITS), i32(16), SHIFT_LEFT, OR, set(joined)],
  ...[get(Local.BITS), set(before)],
];

const CLASSIFY: Code = [
  ...[get(Local.LOW), get(Local.FROM), loadVector(0), sixteen(0x0f), AND_VECTOR, LOOK_UP],
  ...[get(Local.HIGH), get(Local.FROM), loadVector(0), i32(4), SHIFT_BYTES_RIGHT, LOOK_UP],
  ...[AND_VECTOR, set(Local.CLASSES)],
];

const FIND_RUN: Code = [
  withBefore(RUN_CLASSES, Local.BEFORE, Local.RUNS),
  inARow(Local.RUNS, RUN_CHARACTERS),
  withBefore(DIGIT_CLASS, Local.DIGITS_BEFORE, Local.DIGITS),
  inARow(Local.DIGITS, RUN_DIGITS),
  ...[get(Local.RUNS), get(Local.DIGITS), OR, set(Local.RUNS)],
  get(Local.RUNS),
  when(
    emit(
      ...[get(Local.FROM), i32(RUN_BYTES), SUBTRACT, get(Local.RUNS), TRAILING_ZEROS, ADD],
      ...[i32(RUN_FLAG), OR],
    ),
  ),
];

/** Finds the address of the pair that belongs to the anchor. */
const FIND_PAIR: Code = [
  ...[get(Local.ANCHOR), i32(2), SUBTRACT, set(Local.PAIR)],
  ...[get(Local.KIND), i32(PAIR_BEHIND), AND],
  when(add(Local.PAIR, 3)),
  ...[get(Local.KIND), i32(PAIR_BEFORE_CLOSERS), AND],
  when(
    loop(
      // At most 16 closers.
      ...[get(Local.PAIR), get(Local.ANCHOR), i32(18), SUBTRACT, GREATER_OR_EQUAL],
      ...[get(Local.PAIR), load8(1), load8(Address.CLOSERS), AND],
      when(add(Local.PAIR, -1), branch(1)),
    ),
  ),
];

const FIND_ANCHORS: Code = [
  ...[bitsOf(ANCHOR_CLASSES), set(Local.BITS)],
  loop(
    get(Local.BITS),
    when(
      ...[get(Local.FROM), get(Local.BITS), TRAILING_ZEROS, ADD, set(Local.ANCHOR)],
      ...[get(Local.BITS), get(Local.BITS), i32(1), SUBTRACT, AND, set(Local.BITS)],
      ...[get(Local.ANCHOR), load8(0), load8(Address.KINDS), set(Local.KIND)],
      FIND_PAIR,
      ...[get(Local.PAIR), load16(0), load8(Address.PAIRS), get(Local.KIND), AND],
      when(emit(get(Local.ANCHOR))),
      branch(1),
    ),
  ),
];

const BODY: Code = [
  ...[i32(Address.OUTPUT), set(Local.OUT)],
  ...[i32(0), loadVector(Address.LOW), set(Local.LOW)],
  ...[i32(0), loadVector(Address.HIGH), set(Local.HIGH)],
  block(
    loop(
      ...[get(Local.FROM), get(Local.TO), GREATER_OR_EQUAL, branchIf(1)],
      ...[CLASSIFY, FIND_RUN, FIND_ANCHORS],
      add(Local.FROM, 16),
      branch(0),
    ),
  ),
  ...[get(Local.OUT), i32(Address.OUTPUT), SUBTRACT, i32(2), SHIFT_RIGHT],
];

const MODULE = wasmModule(BODY);

/** A module with a memory and one function of two numbers, which returns a number. */
function wasmModule(body: Code): object {
  const [NUMBER, VECTOR] = [0x7f, 0x7b];
  const locals: Code = [2, [9, NUMBER], [3, VECTOR]];
  const text = (name: string): Code => [name.length, ...Buffer.from(name)];
  const section = (id: number, ...content: Code): Code => [id, sized(content)];
  const module: Code = [
    [0, ...Buffer.from('asm'), 1, 0, 0, 0],
    section(1, 1, 0x60, 2, NUMBER, NUMBER, 1, NUMBER),
    section(3, 1, 0),
    section(5, 1, 0, PAGES),
    section(7, 2, text('memory'), 2, 0, text('scan'), 0, 0),
    section(10, 1, sized([locals, body, 0x0b])),
  ];
  return new WebAssembly.Module(Uint8Array.from(flat(module)));
}

function sized(content: Code): Code {
  return [unsigned(flat(content).length), content];
}

function flat(code: Code): number[] {
  return code.flatMap((part) => (typeof part === 'number' ? part : flat(part)));
}

/** LEB128, as WebAssembly encodes sizes and offsets. */
function unsigned(value: number): Code {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, unsigned(value >>> 7)];
}

/** Signed LEB128, as it encodes constants. */
function signed(value: number): Code {
  const isLast = value >= -0x40 && value < 0x40;
  return isLast ? [value & 0x7f] : [(value & 0x7f) | 0x80, signed(value >> 7)];
}
