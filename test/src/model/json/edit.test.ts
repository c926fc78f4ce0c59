import fc from 'fast-check';
import t from 'tap';
import type { JsonIndex } from '../../../../src/model/batch-index.ts';
import { visitSharedTexts, visitTexts } from '../../../../src/model/formats.ts';
import { native } from '../../../../src/model/native/format.ts';
import { runs } from '../../../../src/model/runs/format.ts';
import {
  DecodedText,
  Mark,
  maskScalar,
  type ScalarPlace,
  type TextField,
  type TextPlace,
} from '../../../../src/model/texts.ts';
import { maskRange } from '../masking.ts';
import { inside, spelled, valueText } from './texts.ts';

const LIMITS = { maxItems: 1000 };
const FORMATS = { native, runs };
type Name = keyof typeof FORMATS;

function scan(name: Name, text: string): JsonIndex {
  return FORMATS[name].scan(Buffer.from(text), LIMITS);
}

type Seen = { readonly field: string; readonly key: string | undefined; readonly text: string };

type Walk = (visit: (place: TextPlace) => void) => void;

function textsOf(index: JsonIndex, position: number): Walk {
  return (text) => visitTexts(index, position, { text });
}

function seen(index: JsonIndex, walk: Walk): Seen[] {
  const { bytes } = index;
  const found: Seen[] = [];
  walk((place) => {
    const { field, keyStart, keyEnd } = place;
    const key = JSON.parse(`"${bytes.toString('utf8', keyStart, keyEnd)}"`);
    const { text } = new DecodedText(bytes, place);
    found.push({ field, key: keyStart === -1 ? undefined : key, text });
  });
  return found;
}

function placesOf(walk: Walk): TextPlace[] {
  const places: TextPlace[] = [];
  walk((place) => places.push({ ...place }));
  return places;
}

/** The strings of a value that JSON.parse made; an element of an array is a step `[]`. */
function* stringsOf(
  value: unknown,
  fieldOf: (path: readonly string[]) => string,
  path: readonly string[] = [],
  key?: string,
): Generator<Seen> {
  if (typeof value === 'string') yield { field: fieldOf(path), key, text: value };
  else if (Array.isArray(value)) {
    for (const element of value) yield* stringsOf(element, fieldOf, [...path, '[]'], key);
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      yield* stringsOf(member, fieldOf, [...path, name], name);
    }
  }
}

/** A copy whose i-th string is `replace(i, string)`, in the order of `stringsOf`. */
function withStrings(value: unknown, replace: (i: number, text: string) => string): unknown {
  let i = 0;
  const copy = (part: unknown): unknown => {
    if (typeof part === 'string') return replace(i++, part);
    if (Array.isArray(part)) return part.map(copy);
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([key, member]) => [key, copy(member)]));
  };
  return copy(value);
}

/** The fields of texts by the path from the item. The first matching path counts. */
const FIELD_PATHS: readonly (readonly [path: string, field: TextField])[] = [
  ['name', 'name'],
  ['inputs', 'inputs'],
  ['outputs', 'outputs'],
  ['events', 'events'],
  ['error', 'error'],
  ['custom_fields', 'custom_fields'],
  ['metadata.custom_fields', 'custom_fields'],
  ['context_metadata.custom_fields', 'custom_fields'],
  ['extra.metadata.custom_fields', 'custom_fields'],
  ['metadata', 'metadata'],
  ['context_metadata', 'metadata'],
  ['extra.metadata', 'metadata'],
  ...['id', 'observation_id', 'trace_id', 'start_time', 'end_time', 'event_version'].map(
    (path) => [path, 'fixed'] as const,
  ),
];
const FIXED: Readonly<Record<Name, readonly string[]>> = {
  native: ['parent_id', 'parent_observation_id', 'kind', 'run_type', 'operation', 'status'],
  runs: ['parent_run_id', 'dotted_order'],
};

function fieldOfPath(name: Name, path: readonly string[]): string {
  if (FIXED[name].includes(path[0] ?? '')) return 'fixed';
  const dotted = `${path.join('.')}.`;
  return FIELD_PATHS.find(([prefix]) => dotted.startsWith(`${prefix}.`))?.[1] ?? 'attributes';
}

const space = fc.constantFrom('', '', '', ' ', '\n\t');

/** An object with some of the members in any order, each key spelled as the grammar allows. */
function objectText(members: Record<string, fc.Arbitrary<string>>): fc.Arbitrary<string> {
  const names = Object.keys(members);
  return fc
    .shuffledSubarray(names)
    .chain((chosen) =>
      fc.tuple(
        ...chosen.map((name) =>
          fc
            .tuple(
              space,
              fc.oneof({ weight: 3, arbitrary: fc.constant(name) }, spelled(name)),
              space,
              members[name] ?? fc.constant('null'),
            )
            .map(([before, key, behind, value]) => `${before}"${key}"${behind}:${before}${value}`),
        ),
      ),
    )
    .map((texts) => `{${texts.join(',')}}`);
}

const customFields = fc.oneof(objectText({ team: valueText, note: valueText }), valueText);
const metadata = fc.oneof(
  objectText({ custom_fields: customFields, session_id: valueText, other: valueText }),
  valueText,
);
const item = objectText({
  ...Object.fromEntries(
    ['id', 'trace_id', 'name', 'inputs', 'outputs', 'events', 'error', 'tags', 'session_name'].map(
      (name) => [name, valueText],
    ),
  ),
  ...Object.fromEntries(Object.values(FIXED).flatMap((names) => names.map((n) => [n, valueText]))),
  model: valueText,
  metadata,
  context_metadata: metadata,
  custom_fields: customFields,
  extra: fc.oneof(objectText({ metadata, invocation_params: valueText }), valueText),
});

/** A body of each format, with items and members around them. */
const body = fc
  .tuple(
    fc.constantFrom<Name>('native', 'runs'),
    fc.array(fc.oneof({ weight: 4, arbitrary: item }, valueText), { maxLength: 3 }),
    fc.array(item, { maxLength: 2 }),
    valueText,
    fc.array(space, { minLength: 3, maxLength: 3 }),
  )
  .map(([name, items, more, other, [a = '', b = '', c = '']]) => {
    const list = (texts: readonly string[]) => `${a}[${b}${texts.join(`${c},${a}`)}${c}]`;
    const text =
      name === 'native'
        ? `${c}{"before":${other},"events":${list([...items, ...more])},${a}"behind":${other}}${b}`
        : `{"patch":${list(more)},"before":${other},"post":${list(items)}}`;
    return { name, text };
  });

function itemsOf(name: Name, parsed: Record<string, unknown[]>): unknown[] {
  return name === 'native'
    ? (parsed.events ?? [])
    : [...(parsed.post ?? []), ...(parsed.patch ?? [])];
}

t.test('the texts of native events and runs', async (t) => {
  t.test('are the strings that JSON.parse finds, with their fields and keys', async () => {
    fc.assert(
      fc.property(body, ({ name, text }) => {
        const index = scan(name, text);
        const items = itemsOf(name, JSON.parse(text));
        for (const [position, value] of items.entries()) {
          const expected = [...stringsOf(value, (path) => fieldOfPath(name, path))];
          same(seen(index, textsOf(index, position)), expected);
        }
      }),
      { numRuns: 500 },
    );
  });

  t.test('around the items are those of all other members of the root', async () => {
    fc.assert(
      fc.property(body, ({ name, text }) => {
        const index = scan(name, text);
        const { events: _, post: __, patch: ___, ...rest } = JSON.parse(text);
        const shared = seen(index, (text) => visitSharedTexts(index, { text }));
        same(shared, [...stringsOf(rest, () => 'metadata')]);
      }),
      { numRuns: 300 },
    );
  });

  t.test('are marked below every key that the visitor marks', async (t) => {
    const value = { secret: { a: 'in', b: ['in', { c: 'in' }] }, d: 'out', e: [{ secret: 'in' }] };
    const index = scan('native', JSON.stringify({ events: [{ metadata: value, inputs: 'out' }] }));
    const keys: string[] = [];
    visitTexts(index, 0, {
      text: ({ start, end, mark }) => {
        t.equal(mark !== Mark.NONE, index.bytes.toString('utf8', start, end) === 'in');
      },
      marks: (start, end) => {
        keys.push(index.bytes.toString('utf8', start, end));
        return keys.at(-1) === 'secret' ? Mark.TEXTS : Mark.NONE;
      },
    });
    t.same(keys, ['metadata', 'secret', 'a', 'b', 'c', 'd', 'e', 'secret', 'inputs']);
  });

  t.test('include every value of a repeated key, as all are in the body', async (t) => {
    const index = scan(
      'native',
      '{"events":[{"name":"a","inputs":{"x":"b"},"name":"c","inputs":"d"}]}',
    );
    t.same(seen(index, textsOf(index, 0)), [
      { field: 'name', key: 'name', text: 'a' },
      { field: 'inputs', key: 'x', text: 'b' },
      { field: 'name', key: 'name', text: 'c' },
      { field: 'inputs', key: 'inputs', text: 'd' },
    ]);
  });

  t.test('of items that a repeated key of the root shadows are shared texts', async (t) => {
    const index = scan('native', '{"events":[{"name":"a"}],"events":[{"name":"b"}]}');
    t.equal(index.count, 1);
    t.same(seen(index, textsOf(index, 0)), [{ field: 'name', key: 'name', text: 'b' }]);
    t.same(
      seen(index, (text) => visitSharedTexts(index, { text })),
      [{ field: 'metadata', key: 'name', text: 'a' }],
    );
  });

  t.test('include empty strings, lone surrogates and items that are strings', async (t) => {
    const index = scan('native', '{"events":["",{"name":"","inputs":["\\ud800"]},"x"]}');
    t.same(seen(index, textsOf(index, 0)), [{ field: 'attributes', key: undefined, text: '' }]);
    t.same(seen(index, textsOf(index, 1)), [
      { field: 'name', key: 'name', text: '' },
      { field: 'inputs', key: 'inputs', text: '\ud800' },
    ]);
    t.same(seen(index, textsOf(index, 2)), [{ field: 'attributes', key: undefined, text: 'x' }]);
  });

  t.test('are found 512 levels deep', async (t) => {
    const nested = `${'[{"k":'.repeat(254)}["deep"]${'}]'.repeat(254)}`;
    const index = scan('native', `{"events":[{"inputs":${nested}}]}`);
    t.same(seen(index, textsOf(index, 0)), [{ field: 'inputs', key: 'k', text: 'deep' }]);
  });
});

t.test('a splice of native events and runs', async (t) => {
  const replacement = fc.oneof(fc.string({ unit: 'binary' }), fc.constant(''), inside);
  const edit = fc.tuple(body, fc.array(fc.option(replacement), { minLength: 1, maxLength: 12 }));

  t.test('equals the same edit of the decoded form', async () => {
    fc.assert(
      fc.property(edit, ([{ name, text }, replacements]) => {
        const format = FORMATS[name];
        const index = scan(name, text);
        const places: TextPlace[] = [];
        for (let i = 0; i < index.count; i++) places.push(...placesOf(textsOf(index, i)));
        const chosen = (i: number) => replacements[i % replacements.length] ?? undefined;
        const splices = places.flatMap(({ start, end }, i) => {
          const text = chosen(i);
          return text === undefined ? [] : [{ start, end, bytes: format.encodeText(text) }];
        });
        splices.sort((a, b) => a.start - b.start);
        const spliced = format.splice(index, splices).toString();
        const items = withStrings(
          itemsOf(name, JSON.parse(text)),
          (i, before) => chosen(i) ?? before,
        );
        same(itemsOf(name, JSON.parse(spliced)), items);
        scan(name, spliced);
      }),
      { numRuns: 500 },
    );
  });

  t.test('with the bytes that are there changes nothing', async () => {
    fc.assert(
      fc.property(body, ({ name, text }) => {
        const index = scan(name, text);
        const splices: { start: number; end: number; bytes: Buffer }[] = [];
        for (let i = 0; i < index.count; i++) {
          for (const { start, end } of placesOf(textsOf(index, i))) {
            splices.push({ start, end, bytes: index.bytes.subarray(start, end) });
          }
        }
        splices.sort((a, b) => a.start - b.start);
        same(FORMATS[name].splice(index, splices).toString(), text);
      }),
      { numRuns: 200 },
    );
  });

  t.test('throws if splices overlap or are not in order', async (t) => {
    const index = scan('native', '{"events":["abc"]}');
    const at = (start: number, end: number) => ({ start, end, bytes: Buffer.from('x') });
    t.throws(() => native.splice(index, [at(12, 14), at(13, 15)]), RangeError);
    t.throws(() => native.splice(index, [at(13, 14), at(12, 13)]), RangeError);
    t.throws(() => native.splice(index, [at(13, 12)]), RangeError);
    t.equal(native.splice(index, [at(12, 13), at(13, 14)]).toString(), '{"events":["xxc"]}');
  });
});

t.test('masked native events and runs have the structure that they had', async () => {
  const ranges = fc.array(fc.tuple(fc.nat(30), fc.nat(30)), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(body, ranges, ({ name, text }, ranges) => {
      const format = FORMATS[name];
      const index = scan(name, text);
      const before = Uint32Array.from(index.ranges);
      for (let position = 0; position < index.count; position++) {
        for (const [i, place] of placesOf(textsOf(index, position)).entries()) {
          const [from = 0, length = 0] = ranges[i % ranges.length] ?? [];
          const start = Math.min(place.start + from, place.end);
          maskRange(index.bytes, place, start, Math.min(start + length, place.end));
        }
      }
      const masked = index.bytes.toString();
      same(Buffer.byteLength(masked), Buffer.byteLength(text));
      same([...format.scan(index.bytes, LIMITS).ranges], [...before]);
      const items = itemsOf(name, JSON.parse(masked));
      const strings = items.map((value) => [...stringsOf(value, () => '')].length);
      const places = items.map((_, i) => placesOf(textsOf(index, i)).length);
      same(strings, places);
    }),
    { numRuns: 500 },
  );
});

t.test('masked numbers below marked keys are zeros', async (t) => {
  const values = { a: 5, b: [-1.5e300, 'text', true, null], c: { d: 1234 } };
  const event = { id: 'x', inputs: { secret: values, other: values }, usage: { input_tokens: 7 } };
  const index = scan('native', JSON.stringify({ events: [event] }, null, 1));
  const { bytes } = index;
  const before = Uint32Array.from(index.ranges);
  const places: ScalarPlace[] = [];
  visitTexts(index, 0, {
    text: () => {},
    marks: (start, end) => (bytes.toString('utf8', start, end) === 'secret' ? Mark.ALL : Mark.NONE),
    scalar: (place) => places.push(place),
  });
  for (const place of places) maskScalar(bytes, place);
  const zeros = { a: 0, b: [0, 'text', true, null], c: { d: 0 } };
  t.same(JSON.parse(bytes.toString()).events, [
    { ...event, inputs: { secret: zeros, other: values } },
  ]);
  t.same(native.scan(bytes, LIMITS).ranges, before);
});

/** Throws with both values; a tap assertion would print one line for each run of a property. */
function same(found: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`found ${a}, expected ${b}`);
}
