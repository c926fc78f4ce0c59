import t from 'tap';
import type { BatchIndex } from '../../../src/model/batch-index.ts';
import type { FormatModule } from '../../../src/model/format-module.ts';
import { native } from '../../../src/model/native/format.ts';
import {
  OBSERVATION_ORIGIN,
  spanOfObservation,
} from '../../../src/model/otlp/encode-observation.ts';
import { OtlpField } from '../../../src/model/otlp/fields.ts';
import { otlpJson, otlpProto } from '../../../src/model/otlp/format.ts';
import { encodeOwnSpans } from '../../../src/model/otlp/own-span.ts';
import { lengthDelimited, WireReader } from '../../../src/model/otlp/wire.ts';
import { runs } from '../../../src/model/runs/format.ts';
import type { NewParent } from '../../../src/model/texts.ts';
import { nativeEvent } from '../../helper/batches.ts';
import {
  attributesOf,
  decodeRequest,
  encodeRequest,
  requestOf,
  spanOf,
} from '../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 1000 };

/** The body after the item at position 0 was attached to another parent. */
function reparented<Index extends BatchIndex>(
  format: FormatModule<Index>,
  body: Buffer,
  parent: Partial<NewParent>,
): Buffer {
  const index = format.scan(body, LIMITS);
  const change = { parentId: null, originalParentId: 'dropped', traceId: null, ...parent };
  return format.splice(index, format.reparent(index, 0, change));
}

function observed<Index extends BatchIndex>(format: FormatModule<Index>, body: Buffer) {
  return format.observe(format.scan(body, LIMITS), 0, 0);
}

t.test('a native event with another parent', async (t) => {
  const bodyOf = (event: object) => Buffer.from(JSON.stringify({ events: [event], more: 'é' }));
  const eventIn = (body: Buffer) => JSON.parse(body.toString()).events[0];
  const event = nativeEvent({ parent_id: 'dropped' });

  t.test('keeps the original id as an external id, and everything else', async (t) => {
    const body = reparented(native, bodyOf(event), { parentId: 'kept "é"' });
    const marker = { tracectl_original_parent_id: 'dropped' };
    t.same(eventIn(body), { ...event, parent_id: 'kept "é"', ...marker });
    const before = observed(native, bodyOf(event));
    t.same(observed(native, body), {
      ...before,
      parentId: 'kept "é"',
      external: { parent_id: 'dropped' },
    });
  });

  t.test('becomes a root by null, whichever member names the parent', async (t) => {
    for (const parents of [
      { parent_id: 'dropped' },
      { parent_observation_id: 'dropped' },
      { parent_id: 'dropped', parent_observation_id: 'other' },
      { parent_id: null, parent_observation_id: 'dropped' },
    ]) {
      const body = reparented(native, bodyOf(nativeEvent(parents)), {});
      const { parentId, external, traceId } = observed(native, body);
      t.same({ parentId, external }, { parentId: null, external: { parent_id: 'dropped' } });
      t.equal(traceId, 'trace-1');
    }
  });

  t.test('keeps the first original id when it gets a third parent', async (t) => {
    const once = reparented(native, bodyOf(event), { parentId: 'second' });
    const parent = { parentId: 'third', originalParentId: 'second' };
    const twice = observed(native, reparented(native, once, parent));
    t.equal(twice.parentId, 'third');
    t.same(twice.external, { parent_id: 'dropped' });
  });

  t.test('has no external id if a client sends one that is no id', async (t) => {
    for (const tracectl_original_parent_id of ['', null, 5, '\u0000', 'x'.repeat(4097)]) {
      const body = bodyOf({ ...event, tracectl_original_parent_id });
      t.equal(observed(native, body).external, null);
    }
  });
});

t.test('a run with another parent', async (t) => {
  const bodyOf = (run: object) => Buffer.from(JSON.stringify({ post: [run] }));
  const order = ['root', 'dropped', 'run'].map((id) => `20240101T000000000000Z${id}`).join('.');

  t.test('keeps its external ids, and adds the original one', async (t) => {
    const run = { id: 'run', parent_run_id: 'dropped', session_name: 's', trace_id: 'root' };
    const { parentId, external } = observed(runs, reparented(runs, bodyOf(run), { parentId: 'p' }));
    t.equal(parentId, 'p');
    t.same(external, { session_name: 's', parent_id: 'dropped' });
  });

  t.test('does not take the dropped parent out of its dotted order', async (t) => {
    const run = { id: 'run', dotted_order: order };
    t.equal(observed(runs, bodyOf(run)).parentId, 'dropped');
    const root = reparented(runs, bodyOf(run), {});
    t.equal(observed(runs, root).parentId, null);
    t.equal(observed(runs, root).traceId, 'root');
    t.equal(runs.head(runs.scan(root, LIMITS), 0).parentId, null);
    const child = reparented(runs, bodyOf(run), { parentId: 'root' });
    t.equal(observed(runs, child).parentId, 'root');
    t.same(JSON.parse(child.toString()).post[0], {
      ...run,
      parent_run_id: 'root',
      tracectl_original_parent_id: 'dropped',
    });
  });

  t.test('stays in the trace of the dropped parent if it names none itself', async (t) => {
    const run = { id: 'run', parent_run_id: 'dropped' };
    const body = reparented(runs, bodyOf(run), { traceId: 'the trace' });
    t.equal(observed(runs, body).traceId, 'the trace');
    const named = reparented(runs, bodyOf({ ...run, trace_id: 'own' }), { traceId: 'the trace' });
    t.equal(observed(runs, named).traceId, 'own');
    const empty = reparented(runs, bodyOf({ ...run, trace_id: null }), { traceId: 'the trace' });
    t.equal(observed(runs, empty).traceId, 'the trace');
  });
});

const TRACE = '00000000000000000000000000000001';
const DROPPED = 'dd00000000000000';
const KEPT = 'cc00000000000000';

t.test('a span with another parent', async (t) => {
  const dropped = { originalParentId: `${TRACE}:${DROPPED}` };
  const bodies = (span: object) => {
    const request = requestOf([span]);
    return [
      { format: otlpProto, body: encodeRequest(request) },
      { format: otlpJson, body: Buffer.from(JSON.stringify(request)) },
      { format: otlpJson, body: Buffer.from(JSON.stringify(request, null, 1)) },
    ];
  };
  const attributes = attributesOf({ a: 'b' });
  const spans = [
    { parentSpanId: DROPPED },
    { parentSpanId: DROPPED, attributes: [] },
    { parentSpanId: DROPPED, attributes, status: { code: 1 } },
    { attributes: null, parentSpanId: DROPPED },
  ];

  t.test('keeps the original span id as an external id, in both encodings', async (t) => {
    for (const { format, body } of spans.flatMap((more) => bodies(spanOf(0, more)))) {
      const before = observed(format, body);
      const change = { ...dropped, parentId: `${TRACE}:${KEPT}` };
      const after = observed(format, reparented(format, body, change));
      t.same(after, { ...before, parentId: `${TRACE}:${KEPT}` });
      t.equal(after.external?.parent_span_id, DROPPED);
    }
  });

  t.test('becomes a root by null, in both encodings', async (t) => {
    for (const { format, body } of spans.flatMap((more) => bodies(spanOf(0, more)))) {
      const after = observed(format, reparented(format, body, dropped));
      t.equal(after.parentId, null);
      t.equal(after.external?.parent_span_id, DROPPED);
    }
  });

  t.test('keeps the first original id when it gets a third parent', async (t) => {
    for (const { format, body } of bodies(spanOf(0, { parentSpanId: DROPPED }))) {
      const once = reparented(format, body, { ...dropped, parentId: `${TRACE}:${KEPT}` });
      const again = { parentId: null, originalParentId: `${TRACE}:${KEPT}` };
      const twice = observed(format, reparented(format, once, again));
      t.equal(twice.parentId, null);
      t.equal(twice.external?.parent_span_id, DROPPED);
    }
  });

  t.test(
    'shows the original id as an attribute to other readers, not in its metadata',
    async (t) => {
      const change = { ...dropped, parentId: `${TRACE}:${KEPT}` };
      for (const { format, body } of bodies(spanOf(0, { parentSpanId: DROPPED, attributes }))) {
        const result = reparented(format, body, change);
        const index = format.scan(result, LIMITS);
        t.equal(format.head(index, 0).attribute('tracectl.original_parent_id'), DROPPED);
        t.notMatch(format.payload(index, 0, ['metadata']).metadata, 'tracectl');
      }
      const [wire] = bodies(spanOf(0, { parentSpanId: DROPPED, attributes }));
      const sent = reparented(otlpProto, wire?.body ?? Buffer.alloc(0), change);
      const spans = decodeRequest(sent).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans);
      const original = { key: 'tracectl.original_parent_id', value: { stringValue: DROPPED } };
      t.match(spans[0]?.spans, [
        {
          parentSpanId: Buffer.from(KEPT, 'hex').toString('base64'),
          attributes: [original, ...attributes],
        },
      ]);
    },
  );

  t.test('that has an embedded observation changes it there', async (t) => {
    const event = nativeEvent({ parent_id: 'dropped', inputs: 'é "x"' });
    const index = native.scan(Buffer.from(JSON.stringify({ events: [event] })), LIMITS);
    const payload = native.payload(index, 0, ['inputs']);
    const span = spanOfObservation(native.observe(index, 0, 0), payload, 0);
    for (const encoding of ['proto', 'json'] as const) {
      const format = encoding === 'proto' ? otlpProto : otlpJson;
      const body = await encodeOwnSpans(OBSERVATION_ORIGIN, [span], encoding);
      const before = observed(format, body);
      t.equal(before.parentId, 'dropped');
      const child = observed(format, reparented(format, body, { parentId: 'kept "é"' }));
      t.same(child, { ...before, parentId: 'kept "é"', external: { parent_id: 'dropped' } });
      const root = observed(format, reparented(format, body, {}));
      t.same(root, { ...before, parentId: null, external: { parent_id: 'dropped' } });
    }
  });

  t.test('that has an embedded observation in its first field changes it there', async (t) => {
    const index = native.scan(
      Buffer.from(JSON.stringify({ events: [nativeEvent({ parent_id: 'dropped' })] })),
      LIMITS,
    );
    const span = spanOfObservation(native.observe(index, 0, 0), {}, 0);
    const body = await encodeOwnSpans(OBSERVATION_ORIGIN, [span], 'proto');
    const { bytes, spans } = otlpProto.scan(body, LIMITS);
    const [start, end] = [spans[OtlpField.START] ?? 0, spans[OtlpField.END] ?? 0];
    const fields: Buffer[] = [];
    const reader = new WireReader(bytes, start, end);
    for (let from = start; ; from = reader.start) {
      const tag = reader.nextTag();
      if (tag === 0) break;
      reader.skip();
      const field = bytes.subarray(from, reader.start);
      if (tag === 74) fields.unshift(field);
      else if (tag !== 34) fields.push(field);
    }
    const spanBytes = lengthDelimited(18, Buffer.concat(fields));
    const turned = lengthDelimited(10, lengthDelimited(18, spanBytes));
    const child = observed(otlpProto, reparented(otlpProto, turned, { parentId: 'kept' }));
    t.equal(child.parentId, 'kept');
    t.same(child.external, { parent_id: 'dropped' });
  });
});
