import fc from 'fast-check';
import t from 'tap';
import type { JsonIndex } from '../../../../src/model/batch-index.ts';
import { Refusal } from '../../../../src/model/errors.ts';
import { decodeJson, decodeJsonText } from '../../../../src/model/json/decode.ts';
import { COMMON, SIZED_FIELDS } from '../../../../src/model/json/fields.ts';
import {
  findMembers,
  itemRange,
  membersOf,
  stringAt,
  textAt,
  typeAt,
} from '../../../../src/model/json/read.ts';
import { checkJson, documentScanner } from '../../../../src/model/json/scan.ts';
import { NATIVE, NATIVE_PATTERN } from '../../../../src/model/native/fields.ts';
import { RUN_PATTERN } from '../../../../src/model/runs/fields.ts';
import { inside, spelled, valueText } from './texts.ts';

const NATIVE_PATHS = Object.keys(NATIVE) as (keyof typeof NATIVE)[];
const scanNative = documentScanner({
  type: 'native',
  pattern: NATIVE_PATTERN,
  arrays: ['events'],
  required: true,
});
const scanRuns = documentScanner({
  type: 'runs',
  pattern: RUN_PATTERN,
  arrays: ['post', 'patch'],
  required: false,
});

function native(text: string | Buffer, maxItems = 1000): JsonIndex {
  return scanNative(Buffer.from(text), { maxItems });
}

function codeOf(work: () => unknown): string {
  try {
    work();
    return 'accepted';
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

/** A text as ASCII, for the name of a test. */
function shown(text: string): string {
  return Buffer.from(text)
    .toString('latin1')
    .replace(/[^ -~]/g, '.');
}

/** JSON.parse accepts the bytes, which are valid UTF-8 without a byte order mark. */
function parses(bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}

t.test('accepts a text if and only if JSON.parse does', (t) => {
  const texts = [
    ...['', ' ', '{', '}', '[', ']', '{}', '[]', ' { } ', '\n[\t]\r', '[,]', '[1,]', '[1 2]'],
    ...['{"a"}', '{"a":}', '{"a":1,}', '{,}', '{"a" : 1 , "b":2}', '{1:2}', '{a:1}', "{'a':1}"],
    ...['[}', '{]', '[1}', '{"a":1]', '[[]', '[]]', '{}{}', '[] x', '1 2', '"a" "b"', '/**/{}'],
    ...['null', 'true', 'false', 'nul', 'nulll', 'True', 'tru', 'f', 'n', 'NaN', 'Infinity'],
    ...['0', '-0', '-', '+1', '01', '1.', '.5', '1.5', '1e', '1e+', '1e+5', '1E-5', '1e5.5', '-a'],
    ...['0x1', '1_0', '--1', '1.5.5', '1ee5', '0e0', '-0.0E+00', '1e999', '00', '-01', '[0,-]'],
    ...['"', '"a', '"\\', '"\\"', '"\\x41"', '"\\u"', '"\\u12"', '"\\u12G4"', '"\\u00e9"', '"\\/"'],
    ...['"\t"', '"\n"', '"\u0000"', '"\u001f"', '"\u007f"', '"\u2028"', '"\\u0000"', '"\\ud800"'],
    ...[
      '"\\ud83d\\ude00"',
      '"\\ud83d\\u"',
      '"\\ud83dx"',
      '\ufeff{}',
      '\u00a0{}',
      '{}\u0000',
      '\v1',
    ],
    ...['"abcd', '"abcde', '"abcdefg"', '"abc\\"', '"abcdefg\u0001h"', '{"abc\u0001":1}'],
  ];
  for (const text of texts) {
    const bytes = Buffer.from(text);
    const expected = parses(bytes) ? 'accepted' : 'invalid_json';
    t.equal(
      codeOf(() => checkJson(bytes)),
      expected,
      `${shown(text)} is ${expected}`,
    );
  }
  t.end();
});

t.test('refuses bytes that are not UTF-8', (t) => {
  const notUtf8 = [
    [0xc0, 0x80],
    [0xff],
    [0xe2, 0x82],
    [0xed, 0xa0, 0x80],
    [0xf5, 0x80, 0x80, 0x80],
  ];
  for (const bytes of notUtf8) {
    const body = Buffer.concat([
      Buffer.from('{"events":["'),
      Buffer.from(bytes),
      Buffer.from('"]}'),
    ]);
    t.equal(
      codeOf(() => native(body)),
      'invalid_json',
    );
  }
  t.equal(
    codeOf(() => native(Buffer.from('{"events":[]}', 'utf16le'))),
    'invalid_json',
    'UTF-16',
  );
  t.end();
});

t.test('accepts a mutated document if and only if JSON.parse does', (t) => {
  const alphabet = Buffer.from('{}[]:,"\\ \n\t0123456789.eE+-truefalsn/ub\u0001\u00e9');
  const edit = fc.record({
    at: fc.nat(),
    remove: fc.nat({ max: 2 }),
    insert: fc.array(fc.constantFrom(...alphabet), { maxLength: 2 }),
  });
  fc.assert(
    fc.property(valueText, fc.array(edit, { maxLength: 3 }), (text, edits) => {
      let bytes = Buffer.from(text);
      for (const { at, remove, insert } of edits) {
        const where = bytes.length === 0 ? 0 : at % bytes.length;
        const head = bytes.subarray(0, where);
        bytes = Buffer.concat([head, Buffer.from(insert), bytes.subarray(where + remove)]);
      }
      const expected = parses(bytes) ? 'accepted' : 'invalid_json';
      return codeOf(() => checkJson(bytes)) === expected;
    }),
    { numRuns: 3000 },
  );
  t.pass('3,000 documents');
  t.end();
});

t.test('refuses every prefix of a document', (t) => {
  fc.assert(
    fc.property(valueText, (text) => {
      const bytes = Buffer.from(
        `{"events":[${text},{"id":"a\\u0041","metadata":{"x":[1.5e3,null]}}]}`,
      );
      for (let length = 0; length < bytes.length; length++) {
        if (codeOf(() => native(bytes.subarray(0, length))) !== 'invalid_json') return false;
      }
      return codeOf(() => native(bytes)) === 'accepted';
    }),
    { numRuns: 40 },
  );
  t.pass('40 documents');
  t.end();
});

t.test('scans a body at any offset of a larger buffer', (t) => {
  const text = '{"events":[{"id":"abc","name":"efghijk"}]}';
  for (let offset = 0; offset < 9; offset++) {
    const whole = Buffer.from(`${'"'.repeat(offset)}${text}""""`);
    const index = scanNative(whole.subarray(offset, offset + text.length), { maxItems: 1 });
    t.equal(stringAt(index, 0, COMMON.name), 'efghijk', `at offset ${offset}`);
  }
  t.end();
});

t.test('accepts 512 levels of nesting and refuses 513', (t) => {
  const body = (inner: number) => `{"events":[${'['.repeat(inner)}${']'.repeat(inner)}]}`;
  t.equal(native(body(510)).count, 1, '512 levels are accepted, the root being the first');
  const tooDeep = () => native(body(511));
  t.throws(tooDeep, { code: 'invalid_json', message: /nested deeper than 512 levels/ });

  const objects = (inner: number) =>
    `{"events":[{"inputs":${'{"a":'.repeat(inner)}1${'}'.repeat(inner)}}]}`;
  t.equal(native(objects(509)).count, 1, 'objects in a known field count in the same way');
  t.throws(() => native(objects(510)), { code: 'invalid_json' });

  const known = (inner: number) =>
    `{"events":[{"extra":{"metadata":{"custom_fields":${'['.repeat(inner)}${']'.repeat(inner)}}}}]}`;
  t.equal(native(known(507)).count, 1, 'below known fields too');
  t.throws(() => native(known(508)), { code: 'invalid_json' });

  t.doesNotThrow(() => checkJson(Buffer.from('['.repeat(512) + ']'.repeat(512))));
  t.throws(() => checkJson(Buffer.from('['.repeat(513) + ']'.repeat(513))), {
    code: 'invalid_json',
  });
  t.throws(
    () => native('['.repeat(1_000_000)),
    { code: 'invalid_json' },
    'deep nesting ends the scan early',
  );
  const deeper = scanNative(Buffer.from(body(512)), { maxItems: 1, maxDepth: 514 });
  t.equal(deeper.count, 1, 'a caller may allow more for its wrapper');
  t.end();
});

t.test('refuses JSON of another shape', (t) => {
  for (const text of ['null', '[]', '"x"', '1', 'true']) {
    t.throws(() => native(text), { code: 'invalid_request' }, `a root of ${text}`);
  }
  for (const text of ['{}', '{"events":{}}', '{"events":null}', '{"a":{"events":[]}}']) {
    t.throws(() => native(text), { code: 'invalid_request' }, text);
  }
  t.throws(() => native('{"__proto__":{"events":[]}}'), { code: 'invalid_request' });
  t.equal(native('{"events":[]}').count, 0);
  t.equal(native('{"\\u0065vents":[1,2]}').count, 2, 'an escaped key is the same key');
  t.equal(native('{"events":[1,2],"events":[{"id":"x"}]}').count, 1, 'the last one counts');
  t.throws(() => native('{"events":[1],"events":3}'), { code: 'invalid_request' });
  t.equal(native('{"events":3,"events":[1]}').count, 1);
  t.end();
});

t.test('refuses 1,001 items', (t) => {
  const of = (count: number) => `{"events":[${Array(count).fill('{"id":"x"}').join(',')}]}`;
  t.equal(native(of(1000)).count, 1000);
  t.throws(() => native(of(1001)), { code: 'too_many_events', status: 413 });
  t.throws(() => native(`${of(1001)}x`), { code: 'invalid_json' }, 'the whole body is read first');
  t.equal(native(of(1001).replace(/}$/, ',"events":[1]}')).count, 1, 'only the last array counts');

  const runs = (post: number, patch: number) =>
    `{"post":[${Array(post).fill('{}').join(',')}],"patch":[${Array(patch).fill('{}').join(',')}]}`;
  t.equal(scanRuns(Buffer.from(runs(500, 500)), { maxItems: 1000 }).count, 1000);
  const combined = () => scanRuns(Buffer.from(runs(500, 501)), { maxItems: 1000 });
  t.throws(combined, { code: 'too_many_events' }, 'posts and patches count together');
  t.end();
});

t.test('a repeated key replaces the earlier one and all fields below it', (t) => {
  const index = native(
    '{"events":[{"metadata":{"custom_fields":{"a":1}},"metadata":{"user_id":"u"},' +
      '"extra":{"metadata":{"session_id":"s"}},"extra":null,"id":"1","id":"2"}]}',
  );
  t.equal(typeAt(index, 0, COMMON['metadata.custom_fields']), 'absent');
  t.equal(stringAt(index, 0, COMMON['metadata.user_id']), 'u');
  t.equal(typeAt(index, 0, COMMON['extra.metadata']), 'absent');
  t.equal(typeAt(index, 0, COMMON.extra), 'null');
  t.equal(stringAt(index, 0, COMMON.id), '2');
  t.end();
});

t.test('records nothing of an earlier body', (t) => {
  const full = '{"id":"a","metadata":{"custom_fields":{}},"inputs":[1],"extra":{"metadata":{}}}';
  t.throws(() => native(`{"events":[${full},${full}`), { code: 'invalid_json' });
  const index = native('{"events":[{},{"id":"b"}]}');
  t.same([...index.sizes], Array(2 * SIZED_FIELDS.length).fill(0));
  for (const path of NATIVE_PATHS) t.equal(typeAt(index, 0, NATIVE[path]), 'absent', path);
  const again = native(`{"events":[${full},${full}],"events":[{"name":"x"}]}`);
  t.equal(typeAt(again, 0, COMMON.id), 'absent', 'nor of an earlier array of the same body');
  t.end();
});

t.test('finds keys in any order, whatever the order in earlier items', (t) => {
  native('{"events":[{"id":"a","name":"b","status":"c"}]}');
  const spellings = [
    '{"id":"1","name":"2","status":"3"}',
    '{"status":"3","name":"2","id":"1"}',
    '{"id" : "1", "name" :"2","status"\n:\t"3"}',
    '{"id":"1","nam":0,"names":0,"name":"2","status":"3"}',
  ];
  for (const text of spellings) {
    const index = native(`{"events":[${text},${text}]}`);
    const found = [COMMON.id, COMMON.name, NATIVE.status].map((slot) => stringAt(index, 1, slot));
    t.same(found, ['1', '2', '3'], text);
  }
  const foreign = native(
    '{"events":[{"i\\u0164":1,"i\\td":1,"\\u0069\\u0064":"1","i\\\\d":1,"nam\\u0065":"2"}]}',
  );
  t.equal(stringAt(foreign, 0, COMMON.id), '1', 'only escapes are decoded');
  t.equal(stringAt(foreign, 0, COMMON.name), '2');
  t.throws(() => native('{"events":[{"id":"a","name"'), { code: 'invalid_json' });
  t.throws(() => native('{"events":[{"id":"a","name":'), { code: 'invalid_json' });
  t.end();
});

t.test('finds the values that JSON.parse finds, however keys are spelled', (t) => {
  const known = fc
    .constantFrom(...new Set(NATIVE_PATHS.flatMap((path) => path.split('.'))))
    .chain(spelled);
  const member = fc.tuple(
    fc.oneof(
      { weight: 6, arbitrary: known },
      inside.map((key) => `${key}~`),
    ),
    valueText,
  );
  const nested = fc.tuple(
    fc.constantFrom('metadata', 'context_metadata', 'extra', 'usage').chain(spelled),
    fc.array(member, { maxLength: 4 }).map(objectText),
  );
  const deeper = fc.tuple(
    fc.constant('extra'),
    fc.array(member, { maxLength: 3 }).map((members) => `{"metadata":${objectText(members)}}`),
  );
  const event = fc
    .array(fc.oneof({ weight: 3, arbitrary: member }, nested, deeper), { maxLength: 12 })
    .map(objectText);
  fc.assert(
    fc.property(fc.array(fc.oneof(event, valueText), { maxLength: 4 }), (events) => {
      const text = ` { "events" : [ ${events.join(' , ')} ] } `;
      const parsed = JSON.parse(text).events as unknown[];
      const index = native(text);
      if (index.count !== parsed.length) return false;
      return parsed.every((expected, position) => agrees(index, position, expected));
    }),
    { numRuns: 600 },
  );
  t.pass('600 documents');
  t.end();
});

function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  return `{${members.map(([key, value]) => `"${key}" : ${value}`).join(', ')}}`;
}

function agrees(index: JsonIndex, position: number, expected: unknown): boolean {
  const [start, end] = itemRange(index, position);
  const item: unknown = JSON.parse(index.bytes.toString('utf8', start, end));
  if (JSON.stringify(item) !== JSON.stringify(expected)) return false;
  for (const path of NATIVE_PATHS) {
    const value = path.split('.').reduce<unknown>(ownMember, expected);
    const type = typeAt(index, position, NATIVE[path]);
    if (value === undefined) {
      if (type !== 'absent') return false;
    } else if (value === null) {
      if (type !== 'null') return false;
    } else if (
      JSON.stringify(JSON.parse(textAt(index, position, NATIVE[path]) ?? 'null')) !==
      JSON.stringify(value)
    ) {
      return false;
    }
  }
  return true;
}

function ownMember(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
}

t.test('measures the compact lengths of JSON.stringify', (t) => {
  fc.assert(
    fc.property(fc.tuple(...SIZED_FIELDS.map(() => valueText)), (values) => {
      const [inputs, outputs, events, metadata, context, extra] = values;
      const index = native(
        `{"events":[{"inputs" : ${inputs} , "outputs":${outputs}\n,"events": ${events},` +
          `"metadata":${metadata} ,"context_metadata":${context},"extra":{ "metadata" : ${extra} } }]}`,
      );
      return values.every((value, place) => {
        const compact = Buffer.byteLength(JSON.stringify(JSON.parse(value)));
        return index.sizes[place] === compact;
      });
    }),
    { numRuns: 600 },
  );
  const exact: [text: string, bytes: number][] = [
    ['"\\u0041"', 3],
    ['"\\u00e9"', 4],
    ['"\\u20AC"', 5],
    ['"\\/"', 3],
    ['"\\ud83d\\ude00"', 6],
    ['"\\ud83d"', 8],
    ['"\\ude00\\ud83d"', 14],
    ['"\\ud83d\\u0041"', 9],
    ['"\\u0000\\u000a\\u001f"', 16],
    ['"\\u0022\\u005c"', 6],
    ['[ 1 ,\t2 ]', 5],
    ['1.0', 3],
    ['{"a" : 1, "a" : 2}', 13],
  ];
  for (const [text, bytes] of exact) {
    t.equal(native(`{"events":[{"inputs":${text}}]}`).sizes[0], bytes, text);
  }
  t.end();
});

t.test('lists the members of an object in order, with their ranges', (t) => {
  const bytes = Buffer.from(' { "a" : 1 , "\\u0062":[{}] ,"a":"x,}" } ');
  const found = [...membersOf(bytes, 1)].map(({ key, start, end }) => [
    key,
    bytes.toString('utf8', start, end),
  ]);
  t.same(found, [
    ['a', '1'],
    ['b', '[{}]'],
    ['a', '"x,}"'],
  ]);
  const { a: last, c: none } = findMembers(bytes, 1, ['a', 'c']);
  t.equal(bytes.toString('utf8', last?.start, last?.end), '"x,}"', 'the last one with the name');
  t.equal(none, undefined);
  t.same([...membersOf(Buffer.from('{}'), 0)], []);
  const keys = Buffer.from('{"é":1,"Ã©":2,"\\u00c3\\u00a9x":3,"éa":4,"__proto__":5}');
  const values = { é: '1', 'Ã©': '2', 'Ã©x': '3', éa: '4' };
  for (const [name, value] of [...Object.entries(values), ['__proto__', '5'] as const]) {
    const { [name]: member } = findMembers(keys, 0, [name]);
    t.equal(keys.toString('utf8', member?.start, member?.end), value, name);
  }
  t.equal(findMembers(keys, 0, ['__proto__x', 'x'])['x'], undefined);
  t.end();
});

t.test('reports the position of an error, and never the content', (t) => {
  t.throws(() => native('{"events":[SECRET]}'), {
    message: 'The body is not valid JSON at byte 11.',
  });
  t.throws(() => native('{"events":["SECRET'), { message: 'The body ends too early.' });
  t.equal(textAt(native('{"events":[{"id":null}]}'), 0, COMMON.id), undefined, 'null is absent');
  t.end();
});

t.test('decodes keys independently of earlier keys', (t) => {
  const keys = ['b\\u0000', 'b\\n', 'b\\"', 'b\\/', 'b\\u0063', 'valu\\u0065'];
  for (const key of keys) {
    const prefix = key.slice(0, key.indexOf('\\'));
    for (let i = 0; i < 3; i++) JSON.parse(`{"a":1,"${prefix}\\\\":1}`);
    const bytes = Buffer.from(`{"a":1,"${key}":2}`);
    const read = decodeJson(bytes, 0, bytes.length) as object;
    t.same(Object.keys(read), ['a', JSON.parse(`"${key}"`)], key);
  }
  t.end();
});

t.test('decodes as JSON.parse does', (t) => {
  fc.assert(
    fc.property(valueText, (text) => {
      t.equal(JSON.stringify(decodeJsonText(text)), JSON.stringify(JSON.parse(text)));
      const escaped = ` { "\\u0061" : ${text} , "b" : [ ] , "" : { } } `;
      t.equal(JSON.stringify(decodeJsonText(escaped)), JSON.stringify(JSON.parse(escaped)));
    }),
  );
  const own = decodeJsonText('{"__proto__":{"a":"\\n"},"a":1,"a":2}') as { a: number };
  t.equal(Object.getPrototypeOf(own), Object.prototype);
  t.ok(Object.hasOwn(own, '__proto__'));
  t.equal(own.a, 2);
  t.end();
});
