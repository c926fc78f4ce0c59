import t from 'tap';
import {
  fieldSuggestions,
  isListed,
  listedSuggestions,
  taken,
  typedAt,
  valueSuggestions,
} from '../../../ui/parts/suggest.ts';

t.test('finds the word at the caret', async (t) => {
  t.same(typedAt('', 0), { field: undefined, prefix: '', start: 0, end: 0 });
  t.same(typedAt('mod', 3), { field: undefined, prefix: 'mod', start: 0, end: 3 });
  t.same(typedAt('-mod', 4), { field: undefined, prefix: 'mod', start: 1, end: 4 });
  t.same(typedAt('a model:gp', 10), { field: 'model', prefix: 'gp', start: 2, end: 10 });
  t.same(typedAt('model:gpt b', 8), { field: 'model', prefix: 'gp', start: 0, end: 9 });
});

t.test('completes nothing inside of quotes', async (t) => {
  t.equal(typedAt('name:"a b', 9), undefined);
  t.equal(typedAt('"a', 2), undefined);
  t.ok(typedAt('"a" b', 5));
});

t.test('suggests fields by the beginning of their name', async (t) => {
  const texts = fieldSuggestions({ field: undefined, prefix: 'in', start: 0, end: 2 });
  t.same(
    texts.map(({ text }) => text),
    ['input_tokens:'],
  );
  const keyed = fieldSuggestions({ field: undefined, prefix: 'cus', start: 0, end: 3 });
  t.same(
    keyed.map(({ text }) => text),
    ['custom.'],
  );
});

t.test('suggests choices, comparisons and the values that traces have', async (t) => {
  const typed = { field: 'state', prefix: 'in', start: 0, end: 8 };
  t.same(
    valueSuggestions(typed).map(({ text }) => text),
    ['state:interrupted'],
  );
  const latency = { field: 'latency', prefix: '', start: 0, end: 8 };
  t.ok(valueSuggestions(latency).some(({ text }) => text === 'latency:>1s'));
  t.same(valueSuggestions({ ...latency, field: 'nothing' }), []);
  const values = [{ value: 'a b', traces: 1 }];
  t.same(listedSuggestions({ ...latency, field: 'user' }, values), [
    { text: 'user:"a b"', label: 'a b', note: '1 trace' },
  ]);
  t.equal(isListed('custom.team'), true);
  t.equal(isListed('custom.'), false);
  t.equal(isListed('latency'), false);
});

t.test('puts the caret behind what was taken', async (t) => {
  const typed = typedAt('sta model:x', 3);
  if (typed === undefined) throw new Error('no word');
  const name = { text: 'state:', label: '', note: '' };
  t.same(taken('sta model:x', typed, name), { text: 'state:model:x', caret: 6 });
  const value = { text: 'state:error', label: '', note: '' };
  t.same(taken('sta model:x', typed, value), { text: 'state:error model:x', caret: 12 });
});
