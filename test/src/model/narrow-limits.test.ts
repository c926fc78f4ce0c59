import fc from 'fast-check';
import t from 'tap';
import { cutText, NARROW_LIMITS, withinLimits } from '../../../src/model/narrow-limits.ts';
import type { Observation } from '../../../src/model/observation.ts';
import { anObservation } from '../../helper/batches.ts';

const { TEXT, ERROR, KEY, CUSTOM_FIELDS } = NARROW_LIMITS;

t.test('a text at its limit is kept, and one byte more is cut to it', async (t) => {
  for (const character of ['x', 'ä', '漢', '😀']) {
    const bytes = Buffer.byteLength(character);
    const exact = character.repeat(Math.floor(TEXT / bytes)) + 'x'.repeat(TEXT % bytes);
    t.equal(cutText(exact), exact, character);
    const cut = cutText(`${exact}x`);
    t.ok(Buffer.byteLength(cut) <= TEXT && Buffer.byteLength(cut) > TEXT - bytes);
    t.ok(cut.endsWith('…'));
    t.ok(exact.startsWith(cut.slice(0, -1)), 'no character is split');
  }
  t.equal(cutText(null), null);
});

t.test('each narrow field has its limit', async (t) => {
  const long = (bytes: number) => 'x'.repeat(bytes);
  const cut = (bytes: number) => `${long(bytes - 3)}…`;
  const exact: Partial<Observation> = {
    ...{ name: long(TEXT), model: long(TEXT), sessionId: long(TEXT), userId: long(TEXT) },
    error: { message: long(ERROR), type: long(TEXT), stacktrace: long(ERROR) },
    customFields: { [long(KEY)]: long(TEXT) },
    external: { parent_id: long(4096) },
    usage: { [long(KEY)]: 1 },
  };
  t.same(withinLimits(anObservation(exact)), anObservation(exact));
  const past = withinLimits(
    anObservation({
      ...{ name: long(TEXT + 1), model: long(TEXT + 1) },
      ...{ sessionId: long(TEXT + 1), userId: long(TEXT + 1) },
      error: { message: long(ERROR + 1), type: long(TEXT + 1), stacktrace: long(ERROR + 1) },
      customFields: { a: long(TEXT + 1), [long(KEY + 1)]: 'left out' },
      external: { session_name: long(4097) },
      usage: { input_tokens: 1, [long(KEY + 1)]: 2 },
    }),
  );
  t.match(past, {
    ...{ name: cut(TEXT), model: cut(TEXT), sessionId: cut(TEXT), userId: cut(TEXT) },
    error: { message: cut(ERROR), type: cut(TEXT), stacktrace: cut(ERROR) },
    external: { session_name: cut(4096) },
  });
  t.same({ ...past.customFields }, { a: cut(TEXT) });
  t.same(past.usage, { input_tokens: 1 });
});

t.test('custom fields share a limit, and those that do not fit are left out', async (t) => {
  const value = 'x'.repeat(TEXT - 6 - 4);
  const fields = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${100 + i}`, value]));
  const fitting = CUSTOM_FIELDS / TEXT;
  const kept = (count: number) =>
    Object.keys(withinLimits(anObservation({ customFields: fields(count) })).customFields ?? {});
  t.equal(kept(fitting).length, fitting);
  t.same(kept(fitting + 1), kept(fitting));
});

t.test('an empty text is absent', async (t) => {
  const error = { message: '', type: 'Broken', stacktrace: null };
  const full = anObservation({ name: 'n', model: 'm', sessionId: 's', userId: 'u', error });
  for (const field of ['name', 'model', 'sessionId', 'userId'] as const) {
    t.equal(withinLimits({ ...full, [field]: '' })[field], null, field);
  }
  const untyped = withinLimits({ ...full, error: { ...error, type: '' } });
  t.strictSame(untyped.error, { ...error, type: null });
  t.equal(withinLimits(full), full);
});

t.test('an observation within all limits is the same object', async (t) => {
  const small = anObservation({});
  t.equal(withinLimits(small), small);
});

t.test('whatever is sent, a narrow text ends within its limit and well-formed', async () => {
  const character = fc.constantFrom('a', '\u0000', 'ä', '漢', '😀', '\ud800', '\udc00');
  const texts = fc
    .array(character, { minLength: 1, maxLength: 12 })
    .map((characters) => characters.join('').repeat(Math.ceil(3_000 / characters.length)));
  fc.assert(
    fc.property(texts, (text) => {
      const cut = cutText(text);
      return Buffer.byteLength(cut) <= TEXT && (!text.isWellFormed() || cut.isWellFormed());
    }),
  );
});
