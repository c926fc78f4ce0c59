import t from 'tap';
import { UsageCounts } from '../../../src/model/usage.ts';

t.test('the last count of a kind counts, however many kinds there are', async (t) => {
  for (const kinds of [1, 15, 16, 17, 18, 100]) {
    const counts = new UsageCounts();
    for (const round of [1, 2]) {
      for (let i = 0; i < kinds; i++) counts.add(`kind_${i}`, i * round, true);
    }
    t.equal(counts.size, kinds);
    t.same(
      counts.record('included'),
      Object.fromEntries(Array.from({ length: kinds }, (_, i) => [`kind_${i}`, i * 2])),
    );
  }
});

t.test('parts are added to their side, and the own name of a kind precedes others', async (t) => {
  const counts = new UsageCounts();
  for (let i = 0; i < 20; i++) counts.add(`kind_${i}`, i, true);
  counts.add('input_tokens', 10, true);
  counts.add('prompt_tokens', 7, true);
  counts.add('cache_read_input_tokens', 5, true);
  const { input_tokens: input, cached_tokens: cached } = counts.record('anthropic');
  t.same({ input, cached }, { input: 15, cached: 5 });
  t.equal(counts.record('included').input_tokens, 10);
});
