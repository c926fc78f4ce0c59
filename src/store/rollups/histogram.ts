/**
 * Histograms of latencies with fixed logarithmic buckets: bucket `i` has the latencies above `FIRST * GROWTH ** (i - 1)` up to
 * `FIRST * GROWTH ** i` milliseconds. The middle of a bucket is within 4.8 % of each latency in it. Histograms with the same
 * buckets add up, and subtract, without loss.
 */
const FIRST = 0.001;
const GROWTH = 1.1;
/** Longer latencies (10⁷ hours) are in the last bucket. */
const LAST_BUCKET = 400;

const LOG_GROWTH = Math.log(GROWTH);
/** The factor from the upper end of a bucket to the value with the same relative error to both ends. */
const MIDDLE = 2 / (1 + GROWTH);

/** Counts by bucket. */
export type LatencyHistogram = Map<number, number>;

/** Of milliseconds, which are not negative. */
export function bucketOf(latency: number): number {
  if (latency <= FIRST) return 0;
  return Math.min(LAST_BUCKET, Math.ceil(Math.log(latency / FIRST) / LOG_GROWTH));
}

/** The latency that stands for a bucket, in milliseconds. */
function latencyOfBucket(bucket: number): number {
  return bucket === 0 ? FIRST : FIRST * GROWTH ** bucket * MIDDLE;
}

export function countIn(histogram: LatencyHistogram, bucket: number, by: number): void {
  const sum = (histogram.get(bucket) ?? 0) + by;
  if (sum === 0) histogram.delete(bucket);
  else histogram.set(bucket, sum);
}

/** Adds bucket, count, bucket, count … */
export function countPairs(histogram: LatencyHistogram, pairs: readonly number[], sign = 1): void {
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    countIn(histogram, pairs[i] ?? 0, sign * (pairs[i + 1] ?? 0));
  }
}

/** Bucket, count, bucket, count …, in the order of buckets. */
export function pairsOf(histogram: LatencyHistogram): number[] {
  const pairs: number[] = [];
  for (const [bucket, counted] of inOrder(histogram)) pairs.push(bucket, counted);
  return pairs;
}

/** Most histograms have one bucket. */
function inOrder(
  histogram: LatencyHistogram,
): Iterable<readonly [bucket: number, counted: number]> {
  return histogram.size > 1 ? [...histogram].sort(([a], [b]) => a - b) : histogram;
}

/** The bytes of a stored histogram: for each bucket the distance from the bucket before and the count, as varints. */
export function encodeHistogram(histogram: LatencyHistogram): Uint8Array {
  const bytes: number[] = [];
  let before = 0;
  for (const [bucket, counted] of inOrder(histogram)) {
    if (counted <= 0) continue;
    pushVarint(bytes, bucket - before);
    pushVarint(bytes, counted);
    before = bucket;
  }
  return Uint8Array.from(bytes);
}

function pushVarint(bytes: number[], value: number): void {
  let rest = value;
  while (rest > 0x7f) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
}

/** Adds a stored histogram. */
export function addEncoded(histogram: LatencyHistogram, bytes: Uint8Array): void {
  let bucket = 0;
  at = 0;
  while (at < bytes.length) {
    bucket += varintIn(bytes);
    countIn(histogram, bucket, varintIn(bytes));
  }
}

/** The position behind the varint that was read last. */
let at = 0;

function varintIn(bytes: Uint8Array): number {
  let byte = bytes[at++] ?? 0;
  let value = byte & 0x7f;
  for (let scale = 0x80; byte > 0x7f && at < bytes.length; scale *= 0x80) {
    byte = bytes[at++] ?? 0;
    value += (byte & 0x7f) * scale;
  }
  return value;
}

/** A part of a histogram: as it is stored, or bucket, count, bucket, count … */
export type HistogramPart = Uint8Array | readonly number[];

/** The sum of the histograms of a point. One array serves all points of a read; it is empty between two of them. */
const counts = new Float64Array(LAST_BUCKET + 1);
let total = 0;
let lowest = LAST_BUCKET;
let highest = 0;

function count(bucket: number, by: number): void {
  counts[bucket] = (counts[bucket] ?? 0) + by;
  total += by;
  if (bucket < lowest) lowest = bucket;
  if (bucket > highest) highest = bucket;
}

/**
 * Adds the cells of a part from one index to another, which is exclusive, to the sum that `takeQuantiles` takes.
 * Hot path: statistics of a month by hour have thousands of points, each with a few neighbouring buckets.
 */
export function addPart(part: HistogramPart, from: number, to: number): void {
  if (!(part instanceof Uint8Array)) {
    for (let i = from; i + 1 < to; i += 2) count(part[i] ?? 0, part[i + 1] ?? 0);
    return;
  }
  let bucket = 0;
  at = from;
  while (at < to) {
    const distance = part[at] ?? 0;
    const by = part[at + 1] ?? 0;
    // Most numbers are below 128, and are their byte.
    if (distance < 0x80 && by < 0x80) {
      at += 2;
      bucket += distance;
      count(bucket, by);
    } else {
      bucket += varintIn(part);
      count(bucket, varintIn(part));
    }
  }
}

/**
 * Writes the latencies below which these parts (0 to 1, ascending) of the sum are, in milliseconds, from an index on; NaN without a
 * latency. The sum is empty afterwards.
 */
export function takeQuantiles(parts: readonly number[], into: Float64Array, index: number): void {
  let bucket = lowest;
  let seen = counts[bucket] ?? 0;
  for (let i = 0; i < parts.length; i++) {
    const rank = Math.max(1, Math.ceil((parts[i] ?? 0) * total));
    while (seen < rank && bucket < highest) seen += counts[++bucket] ?? 0;
    into[index + i] = seen < rank ? Number.NaN : (LATENCIES[bucket] ?? Number.NaN);
  }
  if (lowest <= highest) counts.fill(0, lowest, highest + 1);
  total = 0;
  lowest = LAST_BUCKET;
  highest = 0;
}

/** Four digits: more would pretend a precision that buckets do not have. */
function rounded(latency: number): number {
  return Number(latency.toPrecision(4));
}

/** By bucket. */
const LATENCIES = Array.from({ length: LAST_BUCKET + 1 }, (_, bucket) =>
  rounded(latencyOfBucket(bucket)),
);
