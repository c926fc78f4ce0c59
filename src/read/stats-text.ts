import { formatMs } from '../model/instant.ts';
import type { PackedPoints } from '../store/rollups/points.ts';
import { POINT } from '../store/rollups/points.ts';

/** How a cell of a point is written. `money`: from 10⁻⁹ USD, `latency`: NaN as null. */
type CellForm = 'count' | 'money' | 'latency';
type Member = readonly [name: string, cell: number, form: CellForm];

/** The members of a point, by the name of their metric. */
const MEMBERS: Readonly<Record<string, readonly Member[]>> = {
  traces: [['traces', POINT.TRACES, 'count']],
  observations: [['observations', POINT.OBSERVATIONS, 'count']],
  errors: [['errors', POINT.ERRORS, 'count']],
  tokens: [
    ['input_tokens', POINT.INPUT, 'count'],
    ['output_tokens', POINT.OUTPUT, 'count'],
    ['cached_tokens', POINT.CACHED, 'count'],
  ],
  cost: [['cost', POINT.COST, 'money']],
  p50: [['latency_p50_ms', POINT.P50, 'latency']],
  p95: [['latency_p95_ms', POINT.P95, 'latency']],
  p99: [['latency_p99_ms', POINT.P99, 'latency']],
};

export const STATS_METRICS = Object.keys(MEMBERS);

type WrittenMember = { readonly before: Buffer; readonly cell: number; readonly form: CellForm };

/** The bytes of a text from which a buffer begins. */
const FIRST_BYTES = 16_384;
/** Points may be longer than those before them. */
const ROOM = 1.1;
/** The bytes of a number are fewer than these, and so are those of all members between the numbers of a point. */
const NUMBER_BYTES = 32;
const [COMMA, CLOSE, POINT_MARK, ZERO] = [0x2c, 0x7d, 0x2e, 0x30];

const NANOS = 1_000_000_000;
const NANO_DIGITS = 9;

/**
 * The JSON of points, written as bytes.
 *
 * Hot path: a month by hour has hundreds of points in each group. Texts of their members would cost more to collect than to make.
 */
export class StatsText {
  readonly #points: PackedPoints;
  readonly #members: readonly WrittenMember[];
  /** Bytes of the longest point. */
  readonly #pointBytes: number;
  /** The groups have points of the same times. */
  readonly #times = new Map<number, Buffer>();
  readonly #latencies = new Map<number, Buffer>();
  #written = 0;
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  constructor(points: PackedPoints, metrics: readonly string[]) {
    this.#points = points;
    this.#members = metrics
      .flatMap((metric) => MEMBERS[metric] ?? [])
      .map(([name, cell, form]) => ({ before: Buffer.from(`,"${name}":`), cell, form }));
    const names = this.#members.reduce((sum, { before }) => sum + before.length, 0);
    this.#pointBytes = names + NUMBER_BYTES * (this.#members.length + 2);
  }

  add(text: string): void {
    const bytes = Buffer.from(text);
    this.#reserve(bytes.length);
    this.#put(bytes);
  }

  /** Adds the points from one index to another, which is exclusive. */
  addPoints(from: number, to: number): void {
    const { cells } = this.#points;
    for (let i = from; i < to; i++) {
      this.#reserve(this.#pointBytes);
      const first = i * POINT.WIDTH;
      if (i > from) this.#bytes[this.#at++] = COMMA;
      this.#put(this.#timeOf(cells[first + POINT.TIME] ?? 0));
      for (const { before, cell, form } of this.#members) {
        this.#put(before);
        this.#putCell(cells[first + cell] ?? 0, form);
      }
      this.#bytes[this.#at++] = CLOSE;
      this.#written++;
    }
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  #reserve(size: number): void {
    if (this.#at + size <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(2 * (this.#at + size), this.#expected()));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }

  /** About the bytes of all points, by those that are written: a large text is moved once. */
  #expected(): number {
    const points = this.#points.cells.length / POINT.WIDTH;
    return Math.ceil((points * this.#at * ROOM) / Math.max(1, this.#written));
  }

  /** Not `set`: most pieces are shorter than the cost of a call. */
  #put(piece: Uint8Array): void {
    const bytes = this.#bytes;
    let at = this.#at;
    for (let i = 0; i < piece.length; i++) bytes[at++] = piece[i] ?? 0;
    this.#at = at;
  }

  #timeOf(time: number): Buffer {
    let text = this.#times.get(time);
    if (text === undefined) {
      text = Buffer.from(`{"time":${JSON.stringify(formatMs(time))}`);
      this.#times.set(time, text);
    }
    return text;
  }

  #putCell(value: number, form: CellForm): void {
    if (form === 'latency') this.#put(this.#latencyOf(value));
    else if (value < 0 || !Number.isSafeInteger(value)) {
      this.#put(Buffer.from(String(form === 'money' ? value / NANOS : value)));
    } else if (form === 'count') this.#putInteger(value);
    else this.#putMoney(value);
  }

  #latencyOf(latency: number): Buffer {
    let text = this.#latencies.get(latency);
    if (text === undefined) {
      text = Buffer.from(Number.isNaN(latency) ? 'null' : String(latency));
      this.#latencies.set(latency, text);
    }
    return text;
  }

  #putMoney(nanos: number): void {
    this.#putInteger(Math.floor(nanos / NANOS));
    let rest = nanos % NANOS;
    if (rest === 0) return;
    let digits = NANO_DIGITS;
    for (; rest % 10 === 0; digits--) rest /= 10;
    this.#bytes[this.#at++] = POINT_MARK;
    this.#putDigits(rest, digits);
  }

  #putInteger(value: number): void {
    let digits = 1;
    for (let bound = 10; bound <= value; bound *= 10) digits++;
    this.#putDigits(value, digits);
  }

  #putDigits(value: number, digits: number): void {
    let rest = value;
    for (let at = this.#at + digits - 1; at >= this.#at; at--) {
      const next = Math.floor(rest / 10);
      this.#bytes[at] = rest - next * 10 + ZERO;
      rest = next;
    }
    this.#at += digits;
  }
}
