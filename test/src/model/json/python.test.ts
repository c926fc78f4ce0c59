import fc from 'fast-check';
import t from 'tap';
import { pythonToJson } from '../../../../src/model/json/python.ts';

function jsonOf(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return pythonToJson(bytes) ? bytes.toString() : undefined;
}

t.test('rewrites what Python prints to JSON of the same length', async (t) => {
  for (const [text, json] of [
    ["{'a': 21, 'b': 2e-05}", '{"a": 21, "b": 2e-05}'],
    ["{'a': None, 'b': True, 'c': [False]}", '{"a": null, "b": true, "c": [false]}'],
    [`{"it's": 1}`, `{"it's": 1}`],
    [`{'say "x"': 1}`, undefined],
    ['{"a": 1}', '{"a": 1}'],
    ["{'é 漢': 1}", '{"é 漢": 1}'],
    ["{'\u00a0': 1}", '{"\u00a0": 1}'],
    ["{'\u009f': 1}", undefined],
    ["{'\u007f': 1}", undefined],
    ["{'\u001f': 1}", undefined],
    ["{'a\\n': 1}", undefined],
    ["{'a': open()}", undefined],
    ["{'a': Nonel}", undefined],
    ["{'a': 1None}", undefined],
    ["{'a': None_}", undefined],
    ["{'a': Non", undefined],
    ["{'a': Tru", undefined],
    ['None', 'null'],
    ["{'a", undefined],
    ["{'a': 1,\n'b': 2}", undefined],
    ['', ''],
  ] as const) {
    t.equal(jsonOf(text), json, JSON.stringify(text));
  }
});

/** The same with expressions, which take ten times as long. */
function jsonByExpressions(text: string): string | undefined {
  if (/[^-+\d.eE{}[\]:, ]/.test(text.replace(PRINTED, ''))) return undefined;
  return text.replace(PRINTED, (word) => WORDS.get(word) ?? `"${word.slice(1, -1)}"`);
}

const PRINTED = /'[^'"\\\p{Cc}]*'|"[^"\\\p{Cc}]*"|\b(?:None|True|False)\b/gu;
const WORDS = new Map([
  ['None', 'null'],
  ['True', 'true'],
  ['False', 'false'],
]);

t.test('rewrites any text as expressions do', async (t) => {
  const pieces = [
    ...["'", '"', "'a'", '"b"', 'None', 'True', 'False', 'null', '1', 'e', '-', '{', '}', ': '],
    ...[', ', '[', ']', '\\', '\n', '\u0085', '\u00a0', 'é', 'x', '_', '.'],
  ];
  const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((all) => all.join(''));
  fc.assert(
    fc.property(texts, (text) => {
      t.equal(jsonOf(text), jsonByExpressions(text), JSON.stringify(text));
    }),
    { numRuns: 2_000 },
  );
});
