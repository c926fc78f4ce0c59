import t from 'tap';
import { LruCache } from '../../../src/component/lru.ts';

t.test('evicts the entry used longest ago, one past the limit', async (t) => {
  const cache = new LruCache<string, number>({ maxEntries: 2 });
  cache.set('a', 1);
  cache.set('b', 2);
  t.equal(cache.size, 2);
  t.equal(cache.get('a'), 1);
  cache.set('c', 3);
  t.equal(cache.size, 2);
  t.equal(cache.peek('b'), undefined);
  t.equal(cache.peek('a'), 1);
  t.equal(cache.get('c'), 3);
});

t.test('does not count a peek as use', async (t) => {
  const cache = new LruCache<string, number>({ maxEntries: 2 });
  cache.set('a', 1);
  cache.set('b', 2);
  cache.peek('a');
  cache.set('c', 3);
  t.equal(cache.peek('a'), undefined);
});

t.test('counts setting a known key as use, and evicts nothing for it', async (t) => {
  const cache = new LruCache<string, number>({ maxEntries: 2 });
  cache.set('a', 1);
  cache.set('b', 2);
  cache.set('a', 3);
  t.equal(cache.size, 2);
  cache.set('c', 4);
  t.equal(cache.peek('b'), undefined);
  t.equal(cache.peek('a'), 3);
});

t.test('evicts by weight: exactly at the limit nothing, one past it the oldest', async (t) => {
  const cache = new LruCache<string, string>({
    maxEntries: 10,
    maxWeight: 4,
    weightOf: (text) => text.length,
  });
  cache.set('a', 'xx');
  cache.set('b', 'xx');
  t.equal(cache.weight, 4);
  t.equal(cache.size, 2);
  cache.set('c', 'x');
  t.equal(cache.weight, 3);
  t.equal(cache.peek('a'), undefined);
});

t.test('keeps the newest entry, even if it is heavier than the limit', async (t) => {
  const cache = new LruCache<string, string>({
    maxEntries: 10,
    maxWeight: 4,
    weightOf: (text) => text.length,
  });
  cache.set('a', 'xx');
  cache.set('b', 'xxxxx');
  t.equal(cache.peek('a'), undefined);
  t.equal(cache.peek('b'), 'xxxxx');
  cache.set('c', 'x');
  t.equal(cache.peek('b'), undefined);
  t.equal(cache.weight, 1);
});

t.test('makes room ahead of an entry', async (t) => {
  const cache = new LruCache<string, string>({
    maxEntries: 2,
    maxWeight: 4,
    weightOf: (text) => text.length,
  });
  cache.set('a', 'x');
  cache.set('b', 'xx');
  cache.makeRoom(1);
  t.equal(cache.peek('a'), undefined, 'the count of entries');
  cache.makeRoom(2);
  t.equal(cache.size, 1);
  cache.makeRoom(3);
  t.equal(cache.size, 0, 'the weight');
});

t.test('forgets deleted entries and their weight', async (t) => {
  const cache = new LruCache<string, string>({ maxEntries: 10, weightOf: (text) => text.length });
  cache.set('a', 'x');
  cache.set('b', 'xx');
  cache.set('c', 'xxx');
  cache.delete('a');
  cache.delete('a');
  t.equal(cache.weight, 5);
  cache.deleteWhere((text) => text.length === 3);
  t.equal(cache.size, 1);
  t.equal(cache.weight, 2);
  t.equal(cache.get('c'), undefined);
});
