import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { parse } from 'yaml';
import { z } from 'zod';
import type { Facts } from '../../../processors/filter/conditions.ts';
import { decisionOf } from '../../../processors/filter/conditions.ts';
import { config } from '../../../processors/filter/config.ts';
import { createProcessor } from '../../../processors/filter/processor.ts';
import type { Format, ReceivedBatch, SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import type { Observation, ObservationKind } from '../../../src/model/observation.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { seal } from '../../../src/model/seal.ts';
import { isOpen, reject, takeDropped } from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch, received } from '../../helper/batches.ts';
import { applyEdits } from '../../helper/edits.ts';
import { testSettings } from '../../helper/settings.ts';

const FORMATS: readonly Format[] = ['native', 'runs', 'otlp_proto', 'otlp_json'];
const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** A node of a test tree: the id is a number from 1, the parent 0 for a root. */
type Node = { readonly id: number; readonly parent: number; readonly name: string };

function spanId(id: number): string {
  return id.toString(16).padStart(16, '0');
}

/** The id in the common form: spans are identified together with their trace. */
function commonId(format: Format, id: number): string {
  return format.startsWith('otlp') ? `${TRACE}:${spanId(id)}` : spanId(id);
}

function batchOf(format: Format, nodes: readonly Node[], isCompressed = false): SealedBatch {
  const plain = plainBatchOf(format, nodes);
  if (!isCompressed) return plain;
  return rawBatch(format, gzipSync(plain.body), nodes.length, { encoding: 'gzip' });
}

function plainBatchOf(format: Format, nodes: readonly Node[]): SealedBatch {
  const parentOf = ({ parent }: Node) => (parent === 0 ? {} : { parent: spanId(parent) });
  switch (format) {
    case 'native':
      return nativeBatch(
        nodes.map((node) => {
          const { parent } = parentOf(node);
          return nativeEvent({
            ...{ id: spanId(node.id), trace_id: TRACE, name: node.name },
            ...(parent === undefined ? {} : { parent_id: parent }),
          });
        }),
      );
    case 'runs': {
      const post = nodes.map((node) => {
        const { parent } = parentOf(node);
        return {
          ...{ id: spanId(node.id), trace_id: TRACE, name: node.name, run_type: 'llm' },
          ...{ start_time: '2026-01-15T11:59:58.000Z' },
          ...(parent === undefined ? {} : { parent_run_id: parent }),
        };
      });
      return rawBatch('runs', Buffer.from(JSON.stringify({ post })), nodes.length);
    }
    default:
      return otlpBatch(
        nodes.map((node) => ({
          ...{ traceId: TRACE, spanId: spanId(node.id), name: node.name },
          parentSpanId: parentOf(node).parent ?? '',
        })),
        { format },
      );
  }
}

async function filtered(given: z.input<typeof config>, batch: SealedBatch): Promise<ReceivedBatch> {
  const processor = createProcessor(testSettings('processor', 'filter'), config.parse(given));
  const draft = received(batch);
  await processor.process?.(draft, requestContext());
  applyEdits(draft);
  return draft;
}

async function stored(
  given: z.input<typeof config>,
  batch: SealedBatch,
): Promise<readonly Observation[]> {
  return observe(seal(await filtered(given, batch), requestContext()));
}

function shape(observations: readonly Observation[]) {
  return observations.map(({ name, parentId }) => [name, parentId]);
}

for (const format of FORMATS) {
  t.test(
    `${format}: attaches the children of dropped observations to the nearest kept one`,
    async (t) => {
      const nodes = [
        { id: 1, parent: 0, name: 'root' },
        { id: 2, parent: 1, name: 'noise' },
        { id: 3, parent: 2, name: 'noise deeper' },
        { id: 4, parent: 3, name: 'call' },
        { id: 5, parent: 4, name: 'child' },
        { id: 6, parent: 77, name: 'noise of another request' },
        { id: 7, parent: 6, name: 'stray' },
      ];
      for (const order of [nodes, nodes.toReversed()]) {
        for (const isCompressed of [false, true]) {
          const batch = batchOf(format, order, isCompressed);
          const observations = await stored({ exclude: [{ name: 'noise*' }] }, batch);
          const byName = new Map(observations.map((each) => [each.name, each]));
          t.same([...byName.keys()].sort(), ['call', 'child', 'root', 'stray']);
          t.equal(byName.get('root')?.parentId, null);
          t.equal(byName.get('call')?.parentId, commonId(format, 1), 'over two dropped ones');
          t.equal(byName.get('child')?.parentId, commonId(format, 4), 'of a kept parent');
          t.equal(
            byName.get('stray')?.parentId,
            commonId(format, 77),
            'a parent outside the request',
          );
          const external = format.startsWith('otlp') ? 'parent_span_id' : 'parent_id';
          t.match(byName.get('call')?.external, { [external]: spanId(3) }, 'the original parent');
          t.match(byName.get('stray')?.external, { [external]: spanId(6) });
        }
      }
    },
  );

  t.test(`${format}: matches a tree model, with cycles and unknown parents`, async (t) => {
    const tree = fc
      .array(fc.record({ parent: fc.nat(9), isNoise: fc.boolean() }), {
        minLength: 1,
        maxLength: 8,
      })
      .map((list) =>
        list.map(({ parent, isNoise }, i) => ({
          ...{ id: i + 1, parent },
          name: isNoise ? `noise ${i}` : `kept ${i}`,
        })),
      );
    await fc.assert(
      fc.asyncProperty(tree, async (nodes) => {
        const observations = await stored(
          { exclude: [{ name: 'noise*' }] },
          batchOf(format, nodes),
        );
        t.strictSame(shape(observations), expectedOf(format, nodes));
      }),
      { numRuns: 60 },
    );
    t.pass();
  });

  t.test(`${format}: drops every item of a batch`, async (t) => {
    const nodes = [1, 2, 3].map((id) => ({ id, parent: 0, name: 'noise' }));
    const draft = await filtered({ exclude: [{ name: 'noise' }] }, batchOf(format, nodes));
    t.equal(draft.items, 0);
    t.same(draft.rejections, [], 'the client reads that they are accepted');
    t.same([...(takeDropped(draft) ?? [])], [['filtered', 3]]);
    t.same(seal(draft, requestContext()).usage, { events: 0, bytes: 0 });
  });

  t.test(`${format}: leaves the bytes of a batch without matches unchanged`, async (t) => {
    const batch = batchOf(format, [{ id: 1, parent: 0, name: 'kept' }], true);
    const sealed = seal(await filtered({ exclude: [{ name: 'noise' }] }, batch), requestContext());
    t.equal(sealed.encoding, 'gzip');
    t.ok(sealed.body.equals(batch.body));
  });
}

/** Follows parent ids over dropped nodes; a cycle of dropped nodes has no kept ancestor. */
function expectedOf(format: Format, nodes: readonly Node[]): [string, string | null][] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const isNoise = (node: Node | undefined) => node?.name.startsWith('noise') === true;
  return nodes
    .filter((node) => !isNoise(node))
    .map((node) => {
      let { parent } = node;
      for (let steps = 0; isNoise(byId.get(parent)); steps++) {
        parent = steps > nodes.length ? 0 : (byId.get(parent)?.parent ?? 0);
      }
      return [node.name, parent === 0 ? null : commonId(format, parent)];
    });
}

/** Names of the kept events of a native batch. */
async function keptOf(
  given: z.input<typeof config>,
  events: readonly Record<string, unknown>[],
): Promise<unknown[]> {
  const draft = await filtered(
    given,
    nativeBatch(events.map((event, i) => nativeEvent({ id: `o-${i}`, ...event }))),
  );
  return events.flatMap((event, i) => (isOpen(draft, i) ? [event['name']] : []));
}

t.test('compares names by equality, prefix and pattern', async (t) => {
  const events = ['health', 'healthcheck', 'a health', 'GET /livez', 'x GET /livez'].map(
    (name) => ({
      name,
    }),
  );
  const names = async (condition: object) => keptOf({ include: [condition] }, events);
  t.same(await names({ name: 'health' }), ['health']);
  t.same(await names({ name: 'health*' }), ['health', 'healthcheck']);
  t.same(await names({ name: ['health', 'GET *'] }), ['health', 'GET /livez']);
  t.same(await names({ name_matches: '^GET /(livez|readyz)' }), ['GET /livez']);
  t.same(await names({ name_matches: 'health' }), ['health', 'healthcheck', 'a health']);
});

t.test('patterns read the first 16,384 characters of a text', async (t) => {
  const text = (length: number) => `${'x'.repeat(length - 5)}livez`;
  const kept = async (condition: object, event: object) =>
    (await keptOf({ include: [condition] }, [{ name: 'a', ...event }])).length;
  const ofName = { name_matches: 'l.vez' };
  t.equal(await kept(ofName, { name: text(16_384) }), 1);
  t.equal(await kept(ofName, { name: text(16_385) }), 0);
  const ofAttribute = { attributes: { route: { matches: 'l.vez' } } };
  t.equal(await kept(ofAttribute, { metadata: { route: text(16_384) } }), 1);
  t.equal(await kept(ofAttribute, { metadata: { route: text(16_385) } }), 0);
});

t.test('compares kind, status and attributes', async (t) => {
  const events = [
    { name: 'a', kind: 'llm', status: 'error', metadata: { 'http.route': '/livez', code: 200 } },
    { name: 'b', kind: 'tool', status: 'success', metadata: { 'http.route': '/chat' } },
    { name: 'c', kind: 'span', status: 'success', metadata: {} },
  ];
  const names = async (condition: object) => keptOf({ include: [condition] }, events);
  t.same(await names({ kind: 'llm' }), ['a']);
  t.same(await names({ kind: ['llm', 'tool'] }), ['a', 'b']);
  t.same(await names({ status: 'success' }), ['b', 'c']);
  t.same(await names({ attributes: { 'http.route': '/livez' } }), ['a']);
  t.same(await names({ attributes: { 'http.route': '/*' } }), ['a', 'b']);
  t.same(await names({ attributes: { 'http.route': { matches: 'ch.t' } } }), ['b']);
  t.same(await names({ attributes: { 'http.route': { present: true } } }), ['a', 'b']);
  t.same(await names({ attributes: { 'http.route': { present: false } } }), ['c']);
  t.same(await names({ attributes: { code: 200 } }), ['a'], 'a number as its text');
  t.same(await names({ kind: 'llm', status: 'success' }), [], 'fields are joined by AND');
  t.same(await keptOf({ include: [{ kind: 'llm' }, { kind: 'tool' }] }, events), ['a', 'b'], 'OR');
  t.same(await keptOf({ exclude: [{ kind: 'llm' }, { kind: 'tool' }] }, events), ['c']);
  t.same(
    await keptOf({ include: [{ kind: ['llm', 'tool'] }], exclude: [{ status: 'error' }] }, events),
    ['b'],
    'exclude precedes include',
  );
});

t.test('mode selects the list of the conditions', async (t) => {
  const events = [{ name: 'a' }, { name: 'b' }];
  t.same(await keptOf({ conditions: [{ name: 'a' }] }, events), ['b'], 'exclude by default');
  t.same(await keptOf({ mode: 'exclude', conditions: [{ name: 'a' }] }, events), ['b']);
  t.same(await keptOf({ mode: 'include', conditions: [{ name: 'a' }] }, events), ['a']);
});

t.test('compares the scope and the resource of spans', async (t) => {
  for (const format of ['otlp_proto', 'otlp_json'] as const) {
    const batch = batchOf(format, [{ id: 1, parent: 0, name: 'a' }]);
    t.equal((await filtered({ exclude: [{ scope: 'test-scope' }] }, batch)).items, 0);
    t.equal((await filtered({ exclude: [{ scope: 'test-*' }] }, batch)).items, 0);
    t.equal((await filtered({ exclude: [{ scope: 'test' }] }, batch)).items, 1);
    const service = { attributes: { 'service.name': 'test' } };
    t.equal(
      (await filtered({ exclude: [service] }, batch)).items,
      0,
      'an attribute of the resource',
    );
  }
});

t.test('drops the copies that LangSmith sends over OpenTelemetry beside its runs', async (t) => {
  const page = readFileSync('docs/conventions.md', 'utf8');
  const [, yaml = ''] = /```yaml\nfilter:\n([\s\S]*?)```/.exec(page) ?? [];
  const copies = parse(yaml) as object;
  const keptWith = async (environment: Record<string, string>, scope = 'langsmith') => {
    const attributes = Object.entries(environment).map(([name, value]) => ({
      key: `langsmith.metadata.${name}`,
      value: { stringValue: value },
    }));
    const span = { traceId: TRACE, spanId: spanId(1), name: 'chain', attributes };
    const scopeSpans = [{ scope: { name: scope }, spans: [span] }];
    const body = Buffer.from(JSON.stringify({ resourceSpans: [{ scopeSpans }] }));
    return (await filtered(copies, rawBatch('otlp_json', body, 1))).items;
  };
  const both = { LANGSMITH_OTEL_ENABLED: 'true' };
  t.equal(await keptWith(both), 0);
  t.equal(await keptWith({ LANGSMITH_TRACING_MODE: 'hybrid' }), 0);
  t.equal(await keptWith({ ...both, LANGSMITH_OTEL_ONLY: 'true' }), 1, 'the only copy');
  t.equal(await keptWith({ ...both, LANGSMITH_TRACING_MODE: 'otel' }), 1, 'the only copy');
  t.equal(await keptWith(both, 'another scope'), 1);
  t.equal(await keptWith({}), 1);
});

t.test('llm_only keeps the observations of an LLM application', async (t) => {
  const kinds: readonly ObservationKind[] = ['llm', 'generation', 'tool', 'agent', 'embedding'];
  const events = [...kinds, 'span', 'event'].map((kind) => ({ name: kind, kind }));
  t.same(await keptOf({ preset: 'llm_only' }, events), kinds);
});

t.test('decides on the start and the finish of an observation together', async (t) => {
  const start = { id: 'o', operation: 'start', name: 'noise', kind: 'span', status: 'running' };
  const finish = { id: 'o', operation: 'finish', name: null, kind: null, status: 'error' };
  const drafts = async (given: z.input<typeof config>, events: readonly object[]) =>
    (await filtered(given, nativeBatch(events.map((event) => nativeEvent({ ...event }))))).items;
  t.equal(await drafts({ exclude: [{ name: 'noise' }] }, [start, finish]), 0);
  t.equal(
    await drafts({ exclude: [{ status: 'running' }] }, [start, finish]),
    2,
    'the last status',
  );
  t.equal(await drafts({ preset: 'llm_only' }, [finish]), 1, 'an update without its start');
  t.equal(await drafts({ include: [{ kind: 'llm' }] }, [finish]), 1);
  t.equal(await drafts({ exclude: [{ status: 'error' }] }, [finish]), 0, 'a fact that it states');
});

t.test('keeps traces with the same ids apart', async (t) => {
  const events = [
    { id: 'p', trace_id: 'one', name: 'noise', parent_id: 'root-of-one' },
    { id: 'p', trace_id: 'two', name: 'kept' },
    { id: 'c', trace_id: 'one', name: 'child of one', parent_id: 'p' },
    { id: 'c', trace_id: 'two', name: 'child of two', parent_id: 'p' },
  ];
  const batch = nativeBatch(events.map((event) => nativeEvent(event)));
  t.same(shape(await stored({ exclude: [{ name: 'noise' }] }, batch)), [
    ['kept', null],
    ['child of one', 'root-of-one'],
    ['child of two', 'p'],
  ]);
});

t.test('attaches every child of a chain of dropped observations', async (t) => {
  const events = [
    { id: 'root', name: 'kept', parent_id: null },
    { id: 'a', name: 'noise', parent_id: 'root' },
    { id: 'b', name: 'noise', parent_id: 'a' },
    { id: 'one', name: 'one', parent_id: 'b' },
    { id: 'two', name: 'two', parent_id: 'b' },
    { id: 'three', name: 'three', parent_id: 'a' },
  ];
  const batch = nativeBatch(events.map((event) => nativeEvent(event)));
  t.same(shape(await stored({ exclude: [{ name: 'noise' }] }, batch)), [
    ['kept', null],
    ['one', 'root'],
    ['two', 'root'],
    ['three', 'root'],
  ]);
});

t.test('only exclude drops an observation without a name and a kind', async (t) => {
  const facts = (more: Partial<Facts>): Facts => ({
    ...{ name: null, kind: null, status: 'ok', scope: null },
    attribute: () => undefined,
    ...more,
  });
  const keeps = decisionOf(config.parse({ include: [{ name: 'wanted' }] }));
  t.ok(keeps(facts({})), 'an update');
  t.notOk(keeps(facts({ kind: 'span' })), 'an observation without a name');
  t.notOk(keeps(facts({ name: 'other' })));
  t.ok(keeps(facts({ name: 'wanted' })));
  t.notOk(decisionOf(config.parse({ exclude: [{ status: 'ok' }] }))(facts({})));
});

t.test('finds one id in many traces', async (t) => {
  // Were every event compared with all before it, this would take minutes.
  const events = Array.from({ length: 20_000 }, (_, i) => ({
    ...{ id: 'same', trace_id: `é-${i}`, parent_id: 'same' },
    name: i % 2 === 0 ? 'noise' : 'kept',
  }));
  const draft = await filtered({ exclude: [{ name: 'noise' }] }, nativeBatch(events));
  t.equal(draft.items, 10_000);
});

t.test('an update without a trace belongs to the first observation with its id', async (t) => {
  const start = { id: 'a', run_type: 'llm', start_time: '2026-01-15T11:59:58.000Z' };
  const end = { id: 'a', end_time: '2026-01-15T11:59:59.000Z' };
  const keptRuns = async (post: readonly object[], patch: readonly object[]) => {
    const body = Buffer.from(JSON.stringify({ post, patch }));
    const batch = rawBatch('runs', body, post.length + patch.length);
    return (await filtered({ exclude: [{ name: 'noise' }] }, batch)).items;
  };
  const noise = { ...start, name: 'noise', trace_id: 'one' };
  const other = { ...start, name: 'kept', trace_id: 'two' };
  t.equal(await keptRuns([noise, other], [end]), 1);
  t.equal(await keptRuns([other, noise], [end]), 2);
  t.equal(await keptRuns([noise, other], [{ ...end, trace_id: 'two' }]), 2);
});

t.test('an observation has the trace that its first item with a trace names', async (t) => {
  const run = { id: 'a', run_type: 'llm', start_time: '2026-01-15T11:59:58.000Z' };
  const patch = [
    { ...run, name: 'noise' },
    { ...run, name: 'noise', trace_id: 'one' },
    { ...run, name: 'kept', trace_id: 'two' },
  ];
  const keptRuns = async (runs: readonly object[]) => {
    const batch = rawBatch('runs', Buffer.from(JSON.stringify({ patch: runs })), runs.length);
    return (await filtered({ exclude: [{ name: 'noise' }] }, batch)).items;
  };
  t.equal(await keptRuns(patch), 1);
  const end = { id: 'a', trace_id: 'one', end_time: '2026-01-15T11:59:59.000Z' };
  t.equal(await keptRuns([{ ...run, name: 'noise' }, end]), 0, 'the first item names no trace');
});

t.test('passes over rejected items', async (t) => {
  const processor = createProcessor(
    testSettings('processor', 'filter'),
    config.parse({ exclude: [{ name: 'noise' }] }),
  );
  const draft = received(batchOf('native', [{ id: 1, parent: 0, name: 'noise' }]));
  reject(draft, 0, 'invalid_field', 'is wrong');
  await processor.process?.(draft, requestContext());
  t.equal(takeDropped(draft), undefined);
  t.equal(draft.rejections.length, 1);
});

t.test('filters a large batch in turns', async (t) => {
  const padding = 'x'.repeat(1_000);
  const events = Array.from({ length: 1_000 }, (_, i) =>
    nativeEvent({ id: `o-${i}`, name: i % 2 === 0 ? 'noise' : 'kept', inputs: padding }),
  );
  const draft = await filtered({ exclude: [{ name: 'noise' }] }, nativeBatch(events));
  t.equal(draft.items, 500);
});

t.test('the turns end with the request', async (t) => {
  const { clock } = testSettings('processor', 'filter');
  let now = 0;
  const processor = createProcessor(
    { clock: { ...clock, now: () => (now += 20) } },
    config.parse({ exclude: [{ name: 'noise' }] }),
  );
  const draft = received(nativeBatch([nativeEvent({ name: 'noise' }), nativeEvent({})]));
  const request = new AbortController();
  const work = processor.process?.(draft, requestContext({ signal: request.signal }));
  request.abort();
  await t.rejects(Promise.resolve(work), { code: 'too_late' });
  t.equal(draft.items, 2);
});

t.test('refuses an empty filter, unusable patterns and unknown kinds', async (t) => {
  const problem = (given: unknown) =>
    z.prettifyError(config.safeParse(given).error ?? new z.ZodError([]));
  t.match(problem({}), /nothing to filter/);
  t.match(problem({ exclude: [{}] }), /at least one field/);
  t.match(problem({ exclude: [{ name_matches: 'a*' }] }), /may match the empty text/);
  t.match(problem({ exclude: [{ name_matches: '(' }] }), /not in RE2 syntax/);
  t.match(problem({ exclude: [{ attributes: { a: { matches: '(?=a)' } } }] }), /not in RE2 syntax/);
  t.match(problem({ exclude: [{ kind: 'lm' }] }), /kind/);
  t.ok(config.safeParse({ exclude: Array(100).fill({ name: 'a' }) }).success);
  t.notOk(config.safeParse({ exclude: Array(101).fill({ name: 'a' }) }).success);
});
