import fc from 'fast-check';
import t from 'tap';
import {
  fieldOf,
  mistakeOf,
  printScore,
  printTerm,
  scoreTerms,
  toggleValue,
  valuesIn,
  withoutTerm,
} from '../../../ui/state/terms.ts';

t.test('adds a value to the term on its field, and removes it', async (t) => {
  t.equal(toggleValue('', 'model', 'gpt-4o'), 'model:gpt-4o');
  t.equal(toggleValue('status:error', 'model', 'a b'), 'status:error model:"a b"');
  t.equal(toggleValue('model:x status:error', 'model', 'y'), 'model:x,y status:error');
  t.equal(toggleValue('model:x,y status:error', 'model', 'x'), 'model:y status:error');
  t.equal(toggleValue('model:x status:error', 'model', 'x'), 'status:error');
  t.equal(toggleValue('custom.team:a', 'custom.team', 'b'), 'custom.team:a,b');
});

t.test('keeps prefixes, excluded values and the keys of other fields apart', async (t) => {
  t.equal(toggleValue('model:x*', 'model', 'x'), 'model:x*,x');
  t.equal(toggleValue('-model:x', 'model', 'x'), '-model:x model:x');
  t.equal(toggleValue('custom.a:x', 'custom.b', 'x'), 'custom.a:x custom.b:x');
});

t.test('finds the values that a query asks for by equality', async (t) => {
  t.same([...valuesIn('model:x*,y -model:z', 'model')], ['y']);
  t.same([...valuesIn('model:x*', 'model')], []);
});

t.test('leaves a query with a mistake, and an unknown field, as they are', async (t) => {
  t.equal(toggleValue('modle:x', 'model', 'y'), 'modle:x');
  t.equal(toggleValue('model:x', 'nothing', 'y'), 'model:x');
  t.equal(mistakeOf('modle:x')?.position, 0);
  t.equal(mistakeOf('model:x'), undefined);
  t.equal(fieldOf('custom'), undefined);
  t.equal(fieldOf('model.x'), undefined);
});

t.test('finds every value that was added, whatever its characters', async () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 40 }), (value) => {
      const text = toggleValue('status:error', 'name', value);
      return valuesIn(text, 'name').has(value) && printTerm('name', value) !== '';
    }),
  );
});

t.test('prints a score as the query language reads it', async (t) => {
  t.equal(printScore('quality', 0.2), 'score.quality:0.2');
  t.equal(printScore('quality', -1, '>='), 'score.quality:>=-1');
  t.equal(printScore('quality', 1e-7, '<='), 'score.quality:<=1e-7');
  t.equal(printScore('quality'), 'has:score.quality');
  t.equal(printScore('ok', true), 'score.ok:"true"');
  t.equal(printScore('grade', '1'), 'score.grade:"1"');
  t.equal(printScore('how good', 'a "b"'), 'score."how good":"a \\"b\\""');
  for (const value of [0, 1e-7, 1e300, false, 'x, y']) {
    t.equal(mistakeOf(printScore('näme 1', value)), undefined, String(value));
  }
});

t.test('finds the terms on scores, and removes one', async (t) => {
  const text = 'model:x score.a:>=0.5 -score.b:"no" has:score.c word';
  t.same(scoreTerms(text), ['score.a:>=0.5', '-score.b:"no"', 'has:score.c']);
  t.equal(withoutTerm(text, 'score.a:>=0.5'), 'model:x -score.b:"no" has:score.c word');
  t.same(scoreTerms('score.a:'), []);
});
