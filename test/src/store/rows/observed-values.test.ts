import t from 'tap';
import { ValueCounts } from '../../../../src/store/rows/observed-values.ts';

t.test('the tags of a trace are counted, whatever texts are in its facts', async (t) => {
  const lists = [
    ['a'],
    ['"]', 'b\\', '\\"]'],
    ['],"custom":{', 'ü', ' '],
    [],
    ['a', '"tags":["x"]'],
  ];
  for (const tags of lists) {
    for (const more of [{}, { custom: { tags: '"tags":["y"]', z: '"]' } }]) {
      const counts = new ValueCounts('tag', { staleBefore: 0 });
      counts.addTrace(JSON.stringify({ models: ['"tags":["m"]'], tags, ...more }));
      t.same(
        counts.list(),
        tags.map((tag) => [tag, 1]),
      );
    }
  }
  const counts = new ValueCounts('tag', { staleBefore: 0 });
  for (const facts of [{ tags: ['a', 'b'] }, { custom: { tags: 'a' } }, { tags: ['a'] }]) {
    counts.addTrace(JSON.stringify(facts));
  }
  counts.addTrace(null);
  t.same(counts.list(), [
    ['a', 2],
    ['b', 1],
  ]);
});
