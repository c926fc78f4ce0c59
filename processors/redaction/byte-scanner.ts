/**
 * Searches bytes for anchors and for long runs, 16 bytes at a time. It is a WebAssembly module because SIMD
 * instructions are out of JavaScript's reach, except by a regular expression: that needs a copy of the bytes
 * in a string, and such strings fill a young generation that is kept small (src/cli/heap.ts).
 *
 *   16 bytes ─▶ buckets, by tables of the byte's and its two predecessors' halves ─┬─ none: the next 16 bytes
 *        ┌────────────────────────────────────────────────────────────────────────┘
 *        ├─ anchor: does its pair precede it? ──▶ position
 *        └─ 8 bytes of a run: 13 in a row? ─────▶ position
 *
 * `BODY` is that loop; `Tables` says what it searches for.
 */
export type ByteScanner = {
  /** Calls back for every anchor in [start,end), and once or more for every run that ends in it. */
  scan(bytes: Buffer, start: number, end: number, found: FoundAt): void;
};

type FoundAt = (at: number, isRun: boolean) => void;

/** Bit of an anchor's kind: its pair precedes the closers (quotes, brackets, spaces) in front of the anchor. */
export const PAIR_BEFORE_CLOSERS = 1;

/** Buckets of the bytes of runs; the other bits are for anchors. */
const RUN_BUCKETS = 0x03;

/**
 * Buckets of a byte by its lower and by its upper half: the byte is in the buckets that both halves have. A
 * bucket holds more bytes than were added to it, so the other tables decide.
 */
type Halves = { readonly low: Uint8Array; readonly high: Uint8Array };

export type Tables = {
  /** Anchors and bytes of runs. */
  readonly last: Halves;
  /** The byte in front of an anchor, and the one before that. */
  readonly middle: Halves;
  readonly first: Halves;
  /** Bits of every anchor, and 0 for every other byte. */
  readonly kinds: Uint8Array;
  /** 1 for every closer. */
  readonly closers: Uint8Array;
  /** By a pair, `first + 256 * second`, the kinds of the anchors that it makes a find. */
  readonly pairs: Uint8Array;
};

/** Bytes that `scan` can be given at a time. */
export const MAX_SCAN_BYTES = 65_536;

export function createByteScanner(tables: Tables): ByteScanner {
  const { memory, scan } = new WebAssembly.Instance(MODULE).exports as Exports;
  const space = new Uint8Array(memory.buffer);
  [tables.last, tables.middle, tables.first].forEach(({ low, high }, i) => {
    space.set(low, Address.HALVES + 32 * i);
    space.set(high, Address.HALVES + 32 * i + 16);
  });
  CONSTANTS.forEach((byte, i) => {
    space.fill(byte, Address.CONSTANTS + 16 * i, Address.CONSTANTS + 16 * (i + 1));
  });
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
/** Bytes behind the last one: the rest of 16. */
const BYTES_BEHIND = 32;
/** A run that ends in the first 16 bytes may start in the 16 before. */
const RUN_BYTES = 16;
const RUN_FLAG = 0x40000000;
/**
 * The shortest run, and the shortest without separators: the digits of a card. Both start within 16 bytes before
 * those that end it, and hold two neighbouring words of four bytes, which are the cheaper test.
 */
const RUN_CHARACTERS = 15;
const RUN_DIGITS = 13;

/** Bytes of the constant vectors. They are locals, because V8 builds a vector literal again in each turn of a loop. */
const CONSTANTS = [
  0x0f,
  RUN_BUCKETS,
  // Digits and capitals have one of the two bits; spaces and hyphens have none.
  0x50,
];

/** The memory's layout. */
const Address = {
  HALVES: 0,
  CONSTANTS: 96,
  KINDS: 256,
  CLOSERS: 512,
  PAIRS: 1_024,
  /** Behind zeros. */
  INPUT: 66_624,
  /** Every byte, and every 16 bytes of a run, may be a find. */
  OUTPUT: 132_608,
} as const;
const PAGES = 7;

/** The function's locals: two parameters, then numbers, then vectors. */
const Local = {
  FROM: 0,
  TO: 1,
  OUT: 2,
  /** Bits for the bytes that are left. */
  BITS: 3,
  DIGITS: 4,
  ANCHOR: 5,
  KIND: 6,
  PAIR: 7,
  /** Six tables and three constants, as in the memory. */
  VECTORS: 8,
  NIBBLE: 14,
  RUN: 15,
  LETTER: 16,
  BYTES: 17,
  LOW: 18,
  HIGH: 19,
  LAST: 20,
  MIDDLE: 21,
  FIRST: 22,
  /** All bits of the words of four bytes that may be in a run. */
  WORDS: 23,
  /** Of the 16 bytes before. */
  MIDDLE_BEFORE: 24,
  FIRST_BEFORE: 25,
  WORDS_BEFORE: 26,
} as const;
const NUMBERS = 6;
const VECTORS = 19;

/** Part of a WebAssembly binary. */
type Code = readonly (number | Code)[];

const get = (local: number): Code => [0x20, local];
const set = (local: number): Code => [0x21, local];
const tee = (local: number): Code => [0x22, local];
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
const XOR = 0x73;
const SHIFT_LEFT = 0x74;
const SHIFT_RIGHT = 0x76;
const loadVector = (offset: number): Code => [0xfd, 0x00, 0, unsigned(offset)];
const ZERO: Code = [0xfd, 0x0c, Array<number>(16).fill(0)];
const ALL: Code = [0xfd, 0x0c, Array<number>(16).fill(0xff)];
/** 16 bytes of two vectors, from this position on. */
const sixteenFrom = (start: number): Code => [
  [0xfd, 0x0d, Array.from({ length: 16 }, (_, i) => start + i)],
];
/** The relaxed form, one machine instruction: indices above 15 have no defined result, and none occurs. */
const LOOK_UP: Code = [0xfd, 0x80, 0x02];
const EQUAL_BYTES: Code = [0xfd, 0x23];
const EQUAL_WORDS: Code = [0xfd, 0x37];
const AND_VECTOR: Code = [0xfd, 0x4e];
const OR_VECTOR: Code = [0xfd, 0x50];
const ANY: Code = [0xfd, 0x53];
const SPLAT: Code = [0xfd, 0x0f];
const LESS_BYTES: Code = [0xfd, 0x26];
const SUBTRACT_BYTES: Code = [0xfd, 0x71];
const BITMASK: Code = [0xfd, 0x64];
const SHIFT_BYTES_RIGHT: Code = [0xfd, 0x6d];

const add = (local: number, amount: number): Code => [get(local), i32(amount), ADD, set(local)];
const emit = (...address: Code): Code => [get(Local.OUT), address, STORE, add(Local.OUT, 4)];

/** The buckets of 16 bytes, by the table's number. */
const bucketsOf = (table: number): Code => [
  ...[get(Local.VECTORS + 2 * table), get(Local.LOW), LOOK_UP],
  ...[get(Local.VECTORS + 2 * table + 1), get(Local.HIGH), LOOK_UP, AND_VECTOR],
];

/** The 16 bytes of two neighbouring vectors that start `distance` bytes in front of the second one. */
const before = (previous: number, current: number, distance: number): Code => [
  ...[get(previous), get(current), sixteenFrom(16 - distance)],
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

/** Leaves in `LAST` the buckets of anchors, and in `WORDS` the words of runs. */
const CLASSIFY: Code = [
  ...[get(Local.FROM), loadVector(0), tee(Local.BYTES), get(Local.NIBBLE), AND_VECTOR],
  set(Local.LOW),
  ...[get(Local.BYTES), i32(4), SHIFT_BYTES_RIGHT, set(Local.HIGH)],
  ...[bucketsOf(0), set(Local.LAST), bucketsOf(1), set(Local.MIDDLE)],
  ...[bucketsOf(2), set(Local.FIRST)],
  // A word of a run has only bytes of its buckets, and not only separators.
  ...[get(Local.LAST), get(Local.RUN), AND_VECTOR, ZERO, EQUAL_BYTES],
  ...[get(Local.BYTES), get(Local.LETTER), AND_VECTOR, ZERO, EQUAL_WORDS, OR_VECTOR],
  ...[ZERO, EQUAL_WORDS, set(Local.WORDS)],
  ...[get(Local.LAST), before(Local.MIDDLE_BEFORE, Local.MIDDLE, 1), AND_VECTOR],
  ...[before(Local.FIRST_BEFORE, Local.FIRST, 2), AND_VECTOR, set(Local.LAST)],
];

/** Two neighbouring words in front of a word. Every run that ends in the 16 bytes has such a pair. */
const WORD_PAIRS: Code = [
  ...[before(Local.WORDS_BEFORE, Local.WORDS, 4), before(Local.WORDS_BEFORE, Local.WORDS, 8)],
  AND_VECTOR,
];

const REMEMBER: Code = [
  ...[get(Local.MIDDLE), set(Local.MIDDLE_BEFORE), get(Local.FIRST), set(Local.FIRST_BEFORE)],
  ...[get(Local.WORDS), set(Local.WORDS_BEFORE)],
];

type CharacterRange = readonly [first: string, last: string];
const DIGITS: readonly CharacterRange[] = [['0', '9']];
const CHARACTERS: readonly CharacterRange[] = [...DIGITS, ['A', 'Z'], [' ', ' '], ['-', '-']];

/** A bit for each of 16 bytes that is in one of the ranges; they start `distance` bytes before `FROM`. */
const within = (ranges: readonly CharacterRange[], distance: number): Code => [
  ...[get(Local.FROM), i32(distance), SUBTRACT, loadVector(0), set(Local.BYTES), ZERO],
  ...ranges.map(([first, last]): Code => {
    const code = first.charCodeAt(0);
    const count = last.charCodeAt(0) - code + 1;
    return [
      ...[get(Local.BYTES), i32(code), SPLAT, SUBTRACT_BYTES, i32(count), SPLAT, LESS_BYTES],
      OR_VECTOR,
    ];
  }),
  BITMASK,
];

/** Leaves in the local the starts of as many characters in a row that end in the 16 bytes. */
const findInARow = (local: number, ranges: readonly CharacterRange[], count: number): Code => [
  ...[within(ranges, 16), within(ranges, 0), i32(16), SHIFT_LEFT, OR, set(local)],
  inARow(local, count),
];

const FIND_RUN: Code = [
  findInARow(Local.BITS, CHARACTERS, RUN_CHARACTERS),
  findInARow(Local.DIGITS, DIGITS, RUN_DIGITS),
  ...[get(Local.BITS), get(Local.DIGITS), OR, tee(Local.BITS)],
  when(
    emit(
      ...[get(Local.FROM), i32(RUN_BYTES), SUBTRACT, get(Local.BITS), TRAILING_ZEROS, ADD],
      ...[i32(RUN_FLAG), OR],
    ),
  ),
];

/** Leaves in `PAIR` the address of the pair that belongs to the anchor. */
const FIND_PAIR: Code = [
  ...[get(Local.ANCHOR), i32(2), SUBTRACT, set(Local.PAIR)],
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
  ...[get(Local.LAST), ZERO, EQUAL_BYTES, BITMASK, i32(0xffff), XOR, set(Local.BITS)],
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
  ...[i32(Address.OUTPUT), set(Local.OUT), ALL, set(Local.FIRST_BEFORE)],
  ...Array.from({ length: 6 + CONSTANTS.length }, (_, i): Code => {
    return [i32(0), loadVector(Address.HALVES + 16 * i), set(Local.VECTORS + i)];
  }),
  block(
    loop(
      ...[get(Local.FROM), get(Local.TO), GREATER_OR_EQUAL, branchIf(1)],
      CLASSIFY,
      ...[WORD_PAIRS, get(Local.LAST), OR_VECTOR, ANY],
      when(FIND_ANCHORS, WORD_PAIRS, ANY, when(FIND_RUN)),
      REMEMBER,
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
  const locals: Code = [2, [NUMBERS, NUMBER], [VECTORS, VECTOR]];
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
