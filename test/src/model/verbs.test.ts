import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import type { Format, ReceivedBatch, SealedBatch } from '../../../src/model/batch.ts';
import {
  encodeText,
  headOf,
  indexOf,
  measure,
  observe,
  payload,
  visitSharedTexts,
  visitTexts,
} from '../../../src/model/formats.ts';
import { inflateSync } from '../../../src/model/inflate.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { seal } from '../../../src/model/seal.ts';
import { Mark, type TextPlace } from '../../../src/model/texts.ts';
import type { EditedRange } from '../../../src/model/verbs.ts';
import {
  drop,
  isOpen,
  mask,
  reject,
  replace,
  SHARED,
  takeDropped,
  takeEdited,
} from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch, received } from '../../helper/batches.ts';
import { applyEdits } from '../../helper/edits.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../../helper/otlp-proto.ts';

const FORMATS: readonly Format[] = ['native', 'runs', 'otlp_proto', 'otlp_json'];

/** A batch whose item i has the text `SECRET-<i>` in it, and a name of its own. */
function batchOf(format: Format, count: number, isCompressed = false): SealedBatch {
  const items = Array.from({ length: count }, (_, i) => i);
  const batch = plainBatchOf(format, items);
  if (!isCompressed) return batch;
  return rawBatch(format, gzipSync(batch.body), count, { encoding: 'gzip' });
}

function plainBatchOf(format: Format, items: readonly number[]): SealedBatch {
  switch (format) {
    case 'native':
      return nativeBatch(
        items.map((i) => nativeEvent({ id: `o-${i}`, name: `n-${i}`, inputs: secretOf(i) })),
      );
    case 'runs': {
      const runs = items.map((i) => ({ id: `o-${i}`, name: `n-${i}`, inputs: { a: secretOf(i) } }));
      const half = Math.ceil(runs.length / 2);
      const body = JSON.stringify({ post: runs.slice(0, half), patch: runs.slice(half) });
      return rawBatch('runs', Buffer.from(body), items.length);
    }
    default:
      return otlpBatch(
        items.map((i) => ({
          spanId: (i + 1).toString(16).padStart(16, '0'),
          name: `n-${i}`,
          attributes: { prompt: secretOf(i) },
        })),
        { format },
      );
  }
}

const secretOf = (item: number) => `SECRET-${item};`;

/** Where a text of an item holds its secret. */
function secretIn({ index }: ReceivedBatch, item: number): EditedRange[] {
  const found: EditedRange[] = [];
  visitTexts(index, item, {
    text({ start, end }: TextPlace) {
      const secret = secretOf(item);
      const at = index.bytes.subarray(start, end).indexOf(secret);
      if (at !== -1) found.push({ item, start: start + at, end: start + at + secret.length });
    },
  });
  return found;
}

function inflated({ body, encoding }: SealedBatch): string {
  return inflateSync(body, encoding, 1e9).toString('latin1');
}

type Fate = { closed?: 'rejected' | 'dropped'; edited?: 'masked' | 'replaced' };
const VERB = fc.record({
  verb: fc.constantFrom('reject' as const, 'drop' as const, 'mask' as const, 'replace' as const),
  item: fc.nat(5),
});

t.test('applies any order of verbs in every format', async () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...FORMATS),
      fc.boolean(),
      fc.array(fc.array(VERB, { maxLength: 6 }), { maxLength: 3 }),
      (format, isCompressed, processors) => {
        const sent = batchOf(format, 6, isCompressed);
        const batch = received(sent);
        const fates: Fate[] = Array.from({ length: 6 }, () => ({}));
        for (const verbs of processors) checkProcessor(batch, verbs, fates);
        checkSealed(sent, batch, fates);
      },
    ),
    { numRuns: 400 },
  );
});

/** Runs the verbs of one processor, and throws if the counts are not those of `fates`. */
function checkProcessor(
  batch: ReceivedBatch,
  verbs: readonly { verb: 'reject' | 'drop' | 'mask' | 'replace'; item: number }[],
  fates: Fate[],
): void {
  const before = { items: batch.items, rejected: batch.rejections.length };
  const edited = new Set<number>();
  const isReplaced = new Set<number>();
  let dropped = 0;
  for (const { verb, item } of verbs) {
    const fate = fates[item] ?? {};
    if (verb === 'reject') reject(batch, item, 'invalid_field', 'is wrong', `item[${item}]`);
    else if (verb === 'drop') drop(batch, item, item % 2 === 0 ? 'even' : 'odd');
    else {
      // A text that is replaced later must not be replaced twice.
      const ranges = isReplaced.has(item) ? [] : secretIn(batch, item);
      if (ranges.length === 0) continue;
      if (verb === 'mask') mask(batch, ranges);
      else {
        const bytes = encodeText(batch.index, 'a "longer" replacement\n');
        replace(
          batch,
          ranges.map((range) => ({ ...range, bytes })),
        );
        isReplaced.add(item);
      }
      fate.edited = verb === 'mask' ? 'masked' : 'replaced';
      if (fate.closed === undefined) edited.add(item);
      continue;
    }
    if (fate.closed !== undefined) continue;
    fate.closed = verb === 'reject' ? 'rejected' : 'dropped';
    if (verb === 'drop') dropped++;
  }
  applyEdits(batch);
  const reasons = [...(takeDropped(batch)?.values() ?? [])];
  const counts = {
    dropped: reasons.reduce((sum, items) => sum + items, 0),
    edited: takeEdited(batch),
    outgoing: batch.items,
  };
  const rejected = batch.rejections.length - before.rejected;
  const expected = {
    dropped,
    edited: edited.size,
    outgoing: before.items - rejected - dropped,
  };
  if (JSON.stringify(counts) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(counts)} is not ${JSON.stringify(expected)}`);
  }
}

function checkSealed(sent: SealedBatch, batch: ReceivedBatch, fates: readonly Fate[]): void {
  const usage = measure(batch);
  const sealed = seal(batch, requestContext());
  const open = fates.flatMap(({ closed }, item) => (closed === undefined ? [item] : []));
  const isUntouched = fates.every(
    ({ closed, edited }) => closed === undefined && edited === undefined,
  );
  const expected = {
    items: open.length,
    positions: open.length === fates.length ? undefined : open,
    rejections: fates.flatMap(({ closed }, item) => (closed === 'rejected' ? [item] : [])),
    events: open.length,
    encoding: isUntouched ? sent.encoding : 'identity',
    names: open.map((item) => `n-${item}`),
  };
  const found = {
    items: sealed.items,
    positions: sealed.positions,
    rejections: sealed.rejections.map(({ index }) => index),
    events: sealed.usage.events,
    encoding: sealed.encoding,
    names: sealed.items === 0 ? [] : observe(sealed).map(({ name }) => name),
  };
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
  }
  // The stored bytes themselves say the same as the index that was kept.
  const stored = received({ ...sealed, requestItems: sealed.items });
  const again = measure(stored);
  if (again.bytes !== usage.bytes) throw new Error(`${again.bytes} bytes, ${usage.bytes} measured`);
  const text = inflated(sealed);
  for (const [item, { closed, edited }] of fates.entries()) {
    const isThere = closed === undefined && edited === undefined;
    if (text.includes(secretOf(item)) !== isThere) throw new Error(`secret ${item} in ${text}`);
  }
}

t.test('seals an untouched batch as it was received', async (t) => {
  const sent = batchOf('native', 2, true);
  const batch = received(sent);
  const sealed = seal(batch, requestContext());
  t.equal(sealed.body, sent.body);
  t.equal(sealed.encoding, 'gzip');
  t.equal(indexOf(sealed), batch.index, 'readers need no second scan');
  t.ok([0, 1].every((item) => isOpen(batch, item)));
});

t.test('keeps the first verdict of an item', async (t) => {
  const batch = received(batchOf('native', 2));
  reject(batch, 0, 'missing_field', 'is required', 'events[0].id');
  reject(batch, 0, 'invalid_field', 'later');
  drop(batch, 0, 'later');
  drop(batch, 1, 'first');
  reject(batch, 1, 'invalid_field', 'later');
  t.same(batch.rejections, [
    { index: 0, id: 'o-0', code: 'missing_field', reason: 'events[0].id is required' },
  ]);
  t.same([...(takeDropped(batch) ?? [])], [['first', 1]]);
  t.equal(takeDropped(batch), undefined, 'each processor has its own counts');
  t.equal(batch.items, 0);
});

t.test('seals a batch without items with its rejections and no usage', async (t) => {
  for (const format of FORMATS) {
    const batch = received(batchOf(format, 2));
    drop(batch, 1, 'test');
    reject(batch, 0, 'invalid_field', 'x');
    const sealed = seal(batch, requestContext());
    t.match(sealed, { items: 0, requestItems: 2, positions: [], usage: { events: 0, bytes: 0 } });
    t.equal(inflated(sealed).includes('SECRET'), false);
  }
});

t.test('measures usage after edits, also of masked escapes', async (t) => {
  const text = '{"events":[{"id":"a","inputs":{"x":"\\u0041\\u0042!"}}]}';
  const batch = received(rawBatch('native', Buffer.from(text), 1));
  const before = measure(batch).bytes;
  const start = text.indexOf('\\u0041');
  mask(batch, [{ item: 0, start, end: start + 12 }]);
  applyEdits(batch);
  t.equal(measure(batch).bytes, before + 10, 'two bytes of compact JSON are twelve asterisks');
  const sealed = seal(batch, requestContext());
  t.equal(payload(sealed, 0).inputs, '{"x":"************!"}');
});

t.test('a mask with its text never cuts a character or an escape', async (t) => {
  const text = '{"events":[{"id":"a","name":"x\\u0041\\ud83d\\ude00é","inputs":{"pin":1234}}]}';
  const batch = received(rawBatch('native', Buffer.from(text), 1));
  const places: TextPlace[] = [];
  visitTexts(batch.index, 0, { text: (place) => places.push({ ...place }) });
  const name = places.find(({ field }) => field === 'name') as TextPlace;
  mask(batch, [{ item: 0, start: name.start + 2, end: name.start + 8, text: name }]);
  mask(batch, [{ item: 0, start: name.end - 1, end: name.end, text: name }]);
  applyEdits(batch);
  const [event] = JSON.parse(batch.index.bytes.toString()).events;
  t.equal(event.name, `x${'*'.repeat(20)}`);
});

t.test('a mask with the form of a number leaves a number', async (t) => {
  const text = '{"events":[{"id":"a","inputs":{"pin":1234}}]}';
  const batch = received(rawBatch('native', Buffer.from(text), 1));
  const before = measure(batch).bytes;
  visitTexts(batch.index, 0, {
    text: () => {},
    marks: (start, end) =>
      batch.index.bytes.toString('utf8', start, end) === 'pin' ? Mark.ALL : Mark.NONE,
    scalar: (place) => mask(batch, [{ item: 0, ...place }]),
  });
  t.equal(takeEdited(batch), 1);
  applyEdits(batch);
  t.equal(batch.index.bytes.toString(), text.replace('1234', '0   '));
  t.equal(measure(batch).bytes, before - 3);
});

t.test('counts an edit of shared bytes for every open item', async (t) => {
  for (const format of ['otlp_proto', 'otlp_json'] as const) {
    const batch = received(batchOf(format, 3));
    drop(batch, 0, 'test');
    takeDropped(batch);
    const ranges: EditedRange[] = [];
    visitSharedTexts(batch.index, {
      text({ start, end }) {
        if (batch.index.bytes.toString('utf8', start, end) !== 'test') return;
        ranges.push({ item: SHARED, start, end });
      },
    });
    t.equal(ranges.length, 1, 'service.name');
    mask(batch, ranges);
    t.equal(takeEdited(batch), 2);
    t.equal(takeEdited(batch), 0);
    t.match(payload(seal(batch, requestContext()), 0).metadata, /\*{4}/);
  }
});

t.test('a mask hides the former bytes also if a reader has read them', async (t) => {
  for (const encoding of ['otlp_proto', 'otlp_json'] as const) {
    const resource = { attributes: attributesOf({ 'user.id': 'user-SECRET' }) };
    const request = requestOf([spanOf(0)], { resource, scope: { name: 'scope-SECRET' } });
    const body =
      encoding === 'otlp_proto' ? encodeRequest(request) : Buffer.from(JSON.stringify(request));
    const batch = received(rawBatch(encoding, body, 1));
    const head = headOf(batch.index, 0);
    t.same(
      [head.kind, head.scope, head.attribute('user.id')],
      ['span', 'scope-SECRET', 'user-SECRET'],
    );
    const ranges: EditedRange[] = [];
    for (const text of ['user-SECRET', 'scope-SECRET']) {
      const start = batch.index.bytes.indexOf(text);
      ranges.push({ item: SHARED, start, end: start + text.length });
    }
    mask(batch, ranges);
    applyEdits(batch);
    t.equal(headOf(batch.index, 0).attribute('user.id'), '***********');
    const [observation] = observe(seal(batch, requestContext()));
    t.match(observation, { userId: '***********', details: { scope: '************' } });
  }
});

t.test('throws for items and bytes that the batch does not have', async (t) => {
  const batch = received(batchOf('native', 2));
  const { length } = batch.index.bytes;
  for (const item of [-1, 2, 0.5, Number.NaN]) {
    t.throws(() => drop(batch, item, 'x'), { name: 'RangeError' });
    t.throws(() => reject(batch, item, 'invalid_field', 'x'), { name: 'RangeError' });
  }
  const bytes = Buffer.from('x');
  for (const [start, end] of [
    [-1, 2],
    [3, 2],
    [0, length + 1],
  ] as const) {
    t.throws(() => mask(batch, [{ item: 0, start, end }]), { name: 'RangeError' });
    t.throws(() => replace(batch, [{ item: 0, start, end, bytes }]), { name: 'RangeError' });
  }
  mask(batch, []);
  replace(batch, []);
  t.equal(batch.items, 2);

  const name = batch.index.bytes.indexOf('n-0');
  const range = { item: 0, start: name, end: name + 3, bytes };
  replace(batch, [range, { ...range, start: name + 1 }]);
  t.throws(() => applyEdits(batch), /overlap/, 'two replacements of the same bytes');
});

t.test('throws for an edit that adds or removes items', async (t) => {
  const batch = received(batchOf('native', 2));
  const at = batch.index.bytes.indexOf(',{"id":"o-1"');
  const end = batch.index.bytes.length - 2;
  replace(batch, [{ item: 1, start: at, end, bytes: Buffer.alloc(0) }]);
  t.throws(() => applyEdits(batch), /left 1 of 2 items/);
});
