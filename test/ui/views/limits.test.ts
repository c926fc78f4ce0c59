import t from 'tap';
import { parseLimit, typedName } from '../../../ui/views/settings-projects/limits.ts';

t.test('a limit is a whole number from 1, with separators and a unit', async (t) => {
  const cases: [string, number | null | undefined][] = [
    ['', null],
    ['  ', null],
    ['1', 1],
    ['0', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['1,000,000', 1_000_000],
    ['1.5M', 1_500_000],
    ['2 k', 2_000],
    ['50.000', undefined],
    ['1,5M', undefined],
    ['1,0000', undefined],
    ['12,500.5k', 12_500_500],
    ['512 MiB', 536_870_912],
    ['1 GB', 1_000_000_000],
    ['1e3', undefined],
    ['12 apples', undefined],
    ['constructor', undefined],
    ['1constructor', undefined],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ['9007199254740992', undefined],
  ];
  for (const [text, wanted] of cases) t.equal(parseLimit(text), wanted, text);
});

t.test('a name that a keyboard cannot type is confirmed by its id', async (t) => {
  const typed = (name: string) => typedName({ id: 'proj_1', name });
  t.equal(typed('Staging (EU) №2'), 'Staging (EU) №2');
  t.equal(typed('a'.repeat(60)), 'a'.repeat(60));
  for (const name of ['a'.repeat(61), ' a', 'a ', 'a  b', 'a\nb', 'a\0', 'a\u202Eb', 'a\u200Bb']) {
    t.equal(typed(name), 'proj_1', JSON.stringify(name));
  }
});
