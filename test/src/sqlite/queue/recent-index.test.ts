import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { fingerprintOf, RecentIndex } from '../../../../src/sqlite/queue/recent-index.ts';

t.test('finds the newest request with a fingerprint', async (t) => {
  const fingerprints = fc.array(fc.integer({ min: 0, max: 2 ** 48 - 1 }), { maxLength: 300 });
  fc.assert(
    fc.property(fingerprints, fc.nat({ max: 5 }), (given, repeats) => {
      const index = new RecentIndex({ segment: 64, segments: 100 });
      const newest = new Map<number, number>();
      const all = [...given, ...given.slice(0, repeats)];
      for (const [i, fingerprint] of all.entries()) {
        index.add(fingerprint, i + 1, 1);
        newest.set(fingerprint, i + 1);
      }
      for (const [fingerprint, seq] of newest) t.equal(index.find(fingerprint), seq);
      return index.find(2 ** 48) === undefined;
    }),
    { numRuns: 30 },
  );
});

t.test('tells fingerprints with the same low bits apart', async (t) => {
  const index = new RecentIndex();
  for (let i = 0; i < 3000; i++) index.add(i * 2 ** 32, i + 1, 1);
  for (let i = 0; i < 3000; i++) assert.equal(index.find(i * 2 ** 32), i + 1);
  t.equal(index.find(3000 * 2 ** 32), undefined);
});

t.test('a search for a fingerprint that it does not have ends, however full it is', async (t) => {
  const most = 4096;
  const index = new RecentIndex({ segment: most, segments: 1 });
  for (let i = 1; i <= most; i++) {
    index.add(i, i, 1);
    assert.equal(index.find(most + i), undefined);
  }
  t.equal(index.find(most), most);
  t.equal(index.segments, 1);
});

t.test('holds a bounded number of requests, and forgets the oldest', async (t) => {
  const index = new RecentIndex({ segment: 4, segments: 3 });
  for (let i = 1; i <= 12; i++) index.add(i, i, 1);
  t.equal(index.find(1), 1, 'exactly at the bound');
  index.add(13, 13, 1);
  t.equal(index.segments, 3);
  t.same(
    Array.from({ length: 13 }, (_, i) => index.find(i + 1)),
    [undefined, undefined, undefined, undefined, 5, 6, 7, 8, 9, 10, 11, 12, 13],
  );
});

t.test('drops requests that have expired', async (t) => {
  const index = new RecentIndex({ segment: 2, segments: 9 });
  for (const [i, end] of [10, 20, 15, 12, 30].entries()) index.add(i, i + 1, end);
  index.expire(14);
  t.equal(index.segments, 3, 'each segment has one that has not');
  index.expire(15);
  t.same(
    [0, 1, 2, 3, 4].map((one) => index.find(one)),
    [1, 2, undefined, undefined, 5],
  );
  index.expire(20);
  t.same(
    [0, 1, 4].map((one) => index.find(one)),
    [undefined, undefined, 5],
  );
});

t.test('tags have fingerprints of 48 bits, spread over all of them', async (t) => {
  const tags = Array.from({ length: 20_000 }, (_, i) => hash('sha256', `${i}`, 'base64'));
  const all = tags.map((tag) => fingerprintOf(tag, 'proj'));
  t.equal(new Set(all).size, tags.length, 'they differ');
  t.ok(all.every((one) => Number.isSafeInteger(one) && one >= 0 && one < 2 ** 48));
  const places = [1, 2 ** 8, 2 ** 16, 2 ** 24, 2 ** 32, 2 ** 40];
  for (const place of places) {
    t.equal(new Set(all.map((one) => Math.floor(one / place) % 256)).size, 256);
  }
  t.not(fingerprintOf('a', 'proj_1'), fingerprintOf('a', 'proj_2'), 'the project counts');
});
