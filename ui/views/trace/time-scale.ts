import type { Trace } from '../../api/types.ts';
import { instantOf } from './instant.ts';
import type { TreeLayout } from './tree-layout.ts';

/** The range of time that the bars of a trace are drawn in, in milliseconds since 1970. */
export type TimeScale = { readonly from: number; readonly length: number };

/**
 * The range is the one of the trace, which leaves out observations of clocks that are far off. A trace that still runs ends at
 * its newest time, and now if that is near.
 */
export function timeScaleOf(
  trace: Pick<Trace, 'start_time' | 'end_time' | 'state'>,
  layout: Pick<TreeLayout, 'starts' | 'ends'>,
  now: number,
): TimeScale {
  const known = knownRange(layout);
  const start = instantOf(trace.start_time);
  const from = Number.isNaN(start) ? known.from : start;
  const end = instantOf(trace.end_time);
  let until = end > from ? end : Math.max(known.until, from);
  const isRecent = now > until && now - until < RECENT_MS;
  if (trace.state === 'running' && isRecent) until = now;
  return { from, length: Math.max(until - from, SHORTEST_MS) };
}

const RECENT_MS = 3_600_000;
/** A microsecond. */
const SHORTEST_MS = 0.001;

function knownRange({ starts, ends }: Pick<TreeLayout, 'starts' | 'ends'>): {
  from: number;
  until: number;
} {
  let from = Number.POSITIVE_INFINITY;
  let until = Number.NEGATIVE_INFINITY;
  for (const times of [starts, ends]) {
    for (const time of times) {
      if (time < from) from = time;
      if (time > until) until = time;
    }
  }
  return from > until ? { from: 0, until: 0 } : { from, until };
}

/** Where the bar of an observation is, in parts of the range from 0 to 1. */
export type Bar = {
  readonly left: number;
  readonly width: number;
  /** The first token. */
  readonly tick: number | undefined;
  /** `open`: without an end. `reversed`: it ends before it starts. `before`, `after`: outside of the range. */
  readonly form: 'full' | 'open' | 'point' | 'reversed' | 'before' | 'after';
};

/** The bar from `start` to `end`, NaN for a missing time; undefined without a start and an end. */
export function barOf(
  { from, length }: TimeScale,
  { start, end, ttft, isRunning }: BarTimes,
): Bar | undefined {
  const first = Number.isNaN(start) ? end : start;
  if (Number.isNaN(first)) return undefined;
  const last = Number.isNaN(end) ? (isRunning ? from + length : first) : end;
  const part = (time: number): number => Math.min(Math.max((time - from) / length, 0), 1);
  const left = part(Math.min(first, last));
  const right = part(Math.max(first, last));
  const bar = { left, width: right - left };
  const tick = ttft === null || Number.isNaN(start) ? undefined : part(start + ttft);
  if (Math.max(first, last) < from) return { ...bar, tick: undefined, form: 'before' };
  if (Math.min(first, last) > from + length) return { ...bar, tick: undefined, form: 'after' };
  if (last < first) return { ...bar, tick: undefined, form: 'reversed' };
  if (Number.isNaN(end)) return { ...bar, tick, form: isRunning ? 'open' : 'point' };
  return { ...bar, tick, form: 'full' };
}

type BarTimes = {
  readonly start: number;
  readonly end: number;
  readonly ttft: number | null;
  readonly isRunning: boolean;
};

/** Round times for an axis, in milliseconds from its start: at most `most` of them, the first is 0. */
export function ticksOf(length: number, most: number): number[] {
  if (!(length > 0) || !Number.isFinite(length)) return [0];
  const rough = length / Math.max(most - 1, 1);
  const step = stepFrom(rough);
  const ticks: number[] = [];
  for (let index = 0; index < most && index * step <= length; index++) ticks.push(index * step);
  return ticks;
}

const MOST_TICKS = 5;

/** As many round times as have room beside each other on an axis of `width` pixels; `widthOf` is that of a label. */
export function ticksWithRoom(
  length: number,
  width: number,
  widthOf: (tick: number) => number,
): number[] {
  for (let most = MOST_TICKS; most > 1; most--) {
    const ticks = ticksOf(length, most);
    const distance = ((ticks[1] ?? length) / length) * width;
    if (ticks.every((tick) => widthOf(tick) <= distance)) return ticks;
  }
  return [0];
}

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;
/** Above a second people count in minutes, hours and days. */
const LONG_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * 1_000),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
];

function stepFrom(rough: number): number {
  const long = rough > 500 ? LONG_STEPS.find((step) => step >= rough) : undefined;
  if (long !== undefined) return long;
  const unit = rough > 500 ? DAY : 1;
  const power = 10 ** Math.floor(Math.log10(rough / unit));
  const factor = [1, 2, 5, 10].find((each) => each * power * unit >= rough * (1 - 1e-9)) ?? 10;
  // Labels have no finer unit.
  return Math.max(factor * power * unit, SHORTEST_MS);
}
