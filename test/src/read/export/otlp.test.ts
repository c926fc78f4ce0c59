import t, { type Test } from 'tap';
import { RetryableError } from '../../../../src/model/errors.ts';
import type { TraceStore } from '../../../../src/store/store.ts';
import { otlpBatch } from '../../../helper/batches.ts';
import { anObservation, aTrace, fakeTraces } from '../../../helper/fake-traces.ts';
import { exporting } from './rig.ts';

const LINE_ROWS = 200;
const ROWS = 3 * LINE_ROWS + 1;

/** A trace whose spans come in batches of 200, of both encodings. */
function spansInBatches() {
  const batches = [];
  const observations = [];
  for (let first = 0; first < ROWS; first += LINE_ROWS) {
    const format = batches.length % 2 === 0 ? 'otlp_proto' : 'otlp_json';
    const spans = Array.from({ length: Math.min(LINE_ROWS, ROWS - first) }, (_, i) => ({
      ...{ spanId: (first + i + 1).toString(16).padStart(16, '0'), name: `span ${first + i}` },
    }));
    const batch = otlpBatch(spans, { format, id: `batch-${batches.length}` });
    batches.push(batch);
    for (const [position, { name }] of spans.entries()) {
      const payload = { inputs: { batchId: batch.id, position } };
      observations.push(anObservation({ id: name, name, payload, source: 'otlp' }));
    }
  }
  return { traces: [aTrace({ observationCount: ROWS })], observations, batches };
}

async function exportingSpans(t: Test, traces?: (usual: TraceStore) => Partial<TraceStore>) {
  const data = spansInBatches();
  const usual = fakeTraces(() => 'proj_test', data) as TraceStore;
  return exporting(t, data, traces === undefined ? {} : { traces: traces(usual) });
}

type Request = {
  readonly resourceSpans: { scopeSpans: { spans: { name: string }[] }[] }[];
};

/** The names of the spans of each line. */
function namesIn(text: string): string[][] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) =>
      (JSON.parse(line) as Request).resourceSpans.flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans.map(({ name }) => name)),
      ),
    );
}

const all = Array.from({ length: ROWS }, (_, i) => `span ${i}`);

t.test('a line has at most 200 spans, and every span is in one', async (t) => {
  const { get, listeners } = await exportingSpans(t);
  const whole = await get({ format: 'otlp' });
  t.match(whole, { status: 200, rows: ROWS, isComplete: true, error: undefined });
  const lines = namesIn(whole.text);
  t.same(
    lines.map((names) => names.length),
    [LINE_ROWS, LINE_ROWS, LINE_ROWS, 1],
  );
  t.same(lines.flat(), all);
  t.equal(listeners.reads.heldBytes, 0);
});

t.test('parts of any size have every span once', async (t) => {
  const { get } = await exportingSpans(t);
  for (const part of [{ limit: '150' }, { limit: '200' }, { limit: '201' }, { max_bytes: '1' }]) {
    const names: string[] = [];
    let after: string | undefined;
    let parts = 0;
    do {
      const some = await get({
        format: 'otlp',
        ...part,
        ...(after === undefined ? {} : { after }),
      });
      names.push(...namesIn(some.text).flat());
      t.equal(some.rows > 0 && some.rows <= Number(part.limit ?? 1), true);
      after = some.next;
    } while (after !== undefined && ++parts < 20);
    t.same(names, all.slice(0, names.length), JSON.stringify(part));
    t.ok(names.length === ROWS || parts === 20);
  }
});

t.test('an export whose store fails says where the last line ended', async (t) => {
  for (const [failing, written] of [
    ['batch-2', 2 * LINE_ROWS],
    ['batch-3', ROWS - 1],
  ] as const) {
    let isAway = true;
    const { get } = await exportingSpans(t, (usual) => ({
      getBatches: async (projectId, ids) => {
        if (isAway && ids.includes(failing)) throw new RetryableError('storage_failed', 'away');
        return usual.getBatches(projectId, ids);
      },
    }));
    const broken = await get({ format: 'otlp' });
    t.match(broken, { status: 200, isWhole: true, isComplete: false, error: 'storage_failed' });
    t.equal(broken.rows, written);
    const first = namesIn(broken.text).flat();
    t.same(first, all.slice(0, written), 'no part of a line');
    isAway = false;
    const rest = await get({ format: 'otlp', after: broken.next ?? '' });
    t.equal(rest.isComplete, true);
    t.same([...first, ...namesIn(rest.text).flat()], all);
  }
});

t.test('spans whose batch has expired are made of their observations', async (t) => {
  const data = spansInBatches();
  const { get } = await exporting(t, { ...data, batches: data.batches.slice(1) });
  const whole = await get({ format: 'otlp' });
  t.same(namesIn(whole.text).flat().sort(), all.toSorted());
});

t.test('a large span is a line of its own', async (t) => {
  const attributes = { 'input.value': 'x'.repeat(1_048_576) };
  const spans = ['a', 'b', 'c'].map((name, i) => ({
    ...{ name, spanId: `000000000000000${i + 1}` },
    ...(name === 'b' ? { attributes } : {}),
  }));
  const batches = spans.map((span, i) => otlpBatch([span], { id: `batch-${i}` }));
  const observations = spans.map(({ name }, i) => {
    const payload = { inputs: { batchId: `batch-${i}`, position: 0 } };
    return anObservation({ id: name, name, source: 'otlp', payload });
  });
  const { get } = await exporting(t, { traces: [aTrace()], observations, batches });
  t.same(namesIn((await get({ format: 'otlp' })).text), [['a'], ['b'], ['c']]);
});
