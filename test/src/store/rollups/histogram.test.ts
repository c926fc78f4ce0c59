import fc from 'fast-check';
import t from 'tap';
import type { LatencyHistogram } from '../../../../src/store/rollups/histogram.ts';
import {
  addEncoded,
  addPart,
  bucketOf,
  countIn,
  countPairs,
  encodeHistogram,
  pairsOf,
  takeQuantiles,
} from '../../../../src/store/rollups/histogram.ts';
import { quantiles } from '../../../helper/quantiles.ts';

function histogramOf(latencies: readonly number[]): LatencyHistogram {
  const histogram: LatencyHistogram = new Map();
  for (const latency of latencies) countIn(histogram, bucketOf(latency), 1);
  return histogram;
}

t.test('a quantile is within 5 % of the latency of its rank', async (t) => {
  const latency = fc.double({ min: 0.001, max: 1e9, noNaN: true });
  fc.assert(
    fc.property(
      fc.array(latency, { minLength: 1 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (all, part) => {
        const sorted = all.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(part * all.length) - 1)] ?? 0;
        const [found] = quantiles([pairsOf(histogramOf(all))], [part]);
        return typeof found === 'number' && Math.abs(found - exact) <= exact * 0.05;
      },
    ),
  );
  t.same(quantiles([], [0.5]), [null]);
  t.same(quantiles([[]], [0.5]), [null]);
});

t.test('a part of bytes gives the quantiles of its pairs, with others around it', async (t) => {
  const count = fc.integer({ min: 1, max: 40_000 });
  const pairs = fc.array(fc.tuple(fc.integer({ min: 0, max: 400 }), count), { minLength: 1 });
  const around = fc.uint8Array({ maxLength: 3 });
  fc.assert(
    fc.property(pairs, around, around, (counted, before, behind) => {
      const histogram: LatencyHistogram = new Map(counted);
      const encoded = encodeHistogram(histogram);
      addPart(
        Uint8Array.from([...before, ...encoded, ...behind]),
        before.length,
        before.length + encoded.length,
      );
      const found = new Float64Array(3);
      takeQuantiles([0.5, 0.95, 0.99], found, 0);
      t.same([...found], quantiles([pairsOf(histogram)], [0.5, 0.95, 0.99]));
    }),
  );
});

t.test('latencies outside of all buckets are in the first or the last one', async (t) => {
  t.equal(bucketOf(0), 0);
  t.equal(bucketOf(0.001), 0);
  t.equal(bucketOf(0.0011), 1);
  t.equal(bucketOf(Number.MAX_VALUE), 400);
});

t.test('bytes and pairs give the same histogram, and a subtraction leaves nothing', async (t) => {
  const counts = fc.dictionary(fc.nat(400).map(String), fc.integer({ min: 1, max: 1e9 }));
  fc.assert(
    fc.property(counts, (some) => {
      const histogram: LatencyHistogram = new Map(
        Object.entries(some).map(([bucket, counted]) => [Number(bucket), counted]),
      );
      const decoded: LatencyHistogram = new Map();
      addEncoded(decoded, encodeHistogram(histogram));
      t.same(pairsOf(decoded), pairsOf(histogram));
      countPairs(decoded, pairsOf(histogram), -1);
      return decoded.size === 0;
    }),
  );
});
