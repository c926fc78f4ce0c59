import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { narrowStringIn } from '../../../../src/model/json/narrow.ts';
import { findMembers } from '../../../../src/model/json/read.ts';
import { cutText, NARROW_LIMITS } from '../../../../src/model/narrow-limits.ts';
import { wellFormed } from '../../../../src/model/well-formed.ts';

const decoded = (json: string) => {
  const bytes = Buffer.from(json);
  return narrowStringIn(bytes, 0, bytes.length);
};
const shown = (text: string) => cutText(wellFormed(text), NARROW_LIMITS.ERROR);

t.test('a long text is cut as if it were decoded as a whole', async () => {
  const units = ['\\u0041', '\\ud83d\\ude00', '\\ud83d', '\\\\', '\\n', '\\"', 'x', 'é', '€', '😀'];
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 5 }),
      fc.nat(12),
      (cycle, shift) => {
        const unit = cycle.join('');
        const json = `"${'x'.repeat(shift)}${unit.repeat(Math.ceil(120_000 / unit.length))}"`;
        const text = decoded(json);
        assert.equal(shown(text), shown(JSON.parse(json) as string));
        assert.ok(text.length < 120_000);
      },
    ),
    { numRuns: 60 },
  );
});

t.test(
  'a text is decoded as a whole up to the length of which a narrow field may keep all',
  async (t) => {
    const most = NARROW_LIMITS.ERROR;
    for (const unit of ['\\u0041', '\\u20ac', 'x', '€']) {
      const bytes = Buffer.byteLength(JSON.parse(`"${unit}"`) as string);
      const json = `"${unit.repeat(Math.floor(most / bytes))}"`;
      t.equal(decoded(json), JSON.parse(json), unit);
    }
    t.equal(decoded('""'), '');
  },
);

t.test('a key with escapes is found without JSON.parse', async (t) => {
  const names = ['message', 'type', 'other'] as const;
  const short = '\\u00e9'.repeat(7);
  const long = '\\u00e9'.repeat(8);
  const bytes = Buffer.from(`{"${long}":1,"${short}":2,"m\\u0065ssage":3}`);
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (text, reviver) => {
    parsed++;
    return parse(text, reviver);
  };
  try {
    t.same(Object.keys(findMembers(bytes, 0, names)), ['message']);
  } finally {
    JSON.parse = parse;
  }
  t.equal(parsed, 0);
});
