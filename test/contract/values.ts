import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { parseQuery } from '../../src/query/parse.ts';
import type { CountedField, ObservedField } from '../../src/store/rows/observed-values.ts';
import { OBSERVED_COLUMNS } from '../../src/store/rows/observed-values.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { OpenForSummaries } from './summaries.ts';

const T0 = Date.UTC(2026, 0, 15, 12);
const TRACES = 40;
const EVENTS = 400;

async function write(store: Store, list: readonly Partial<Observation>[]): Promise<void> {
  const observations = list.map((more, index) => ({ ...anObservation(more), index }));
  const source = nativeBatch(list.length, { receivedAt: T0 });
  await store.traces.write({ kind: 'observations', source, observations });
}

/** Texts that a store or a reader of JSON may change. */
const VALUES = [
  'a',
  'b',
  'c "quoted"',
  'ü\u{1f600}',
  'nul \u0000',
  'back\\slash',
  'line\nend',
  ' ',
];
const any = (): string => VALUES[Math.floor(Math.random() * VALUES.length)] ?? '';
const sometimes = <T>(value: T): T | undefined => (Math.random() < 0.5 ? value : undefined);

function anyEvent(i: number): Partial<Observation> {
  const promptName = sometimes(any());
  const provider = sometimes(any());
  return {
    ...{ traceId: `t-${i % TRACES}`, id: `o-${i}`, startTime: { ms: T0 + i, ns: 0 } },
    name: sometimes(any()) ?? null,
    error: sometimes({ message: 'm', type: sometimes(any()) ?? null, stacktrace: null }) ?? null,
    details: {
      ...(promptName === undefined ? {} : { promptName }),
      ...(provider === undefined ? {} : { provider }),
    },
  };
}

function valueIn(field: ObservedField, event: Partial<Observation>): string | null | undefined {
  const { name, error, details } = event;
  const values = { span: name, error: error?.type };
  return { ...values, provider: details?.provider, prompt: details?.promptName }[field];
}

/** The values of each trace, read in steps of some traces. */
async function walked(store: Store, field: CountedField, size: number, q = ''): Promise<string[]> {
  const query = parseQuery(q, { ms: T0, ns: 0 });
  const found: string[] = [];
  let cursor: string | undefined;
  while (true) {
    const page = await store.traces.countValues(P, field, {
      ...{ query, limit: size, size },
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const [value, traces] of page.items) found.push(...Array<string>(traces).fill(value));
    if (page.nextCursor === null) return found.sort();
    cursor = page.nextCursor;
  }
}

/** The rules for the values of fields of observations that have no rollups. */
export function observedValuesRules(t: Test, open: OpenForSummaries): void {
  t.test('a walk finds each value of a trace once', async (t) => {
    const { store } = await open(t);
    const events = Array.from({ length: EVENTS }, (_, i) => anyEvent(i));
    for (let i = 0; i < EVENTS; i += 100) await write(store, events.slice(i, i + 100));
    for (const field of Object.keys(OBSERVED_COLUMNS) as ObservedField[]) {
      const byTrace = Map.groupBy(events, ({ traceId }) => traceId);
      const expected = [...byTrace.values()].flatMap((own) => [
        ...new Set(
          own.map((event) => valueIn(field, event)).filter((one) => typeof one === 'string'),
        ),
      ]);
      for (const size of [1, 7, TRACES, 512]) {
        t.same(await walked(store, field, size), expected.sort(), `${field} by ${size}`);
      }
      const one = new Set(byTrace.get('t-7')?.map((event) => valueIn(field, event)));
      const found = [...one].filter((value) => typeof value === 'string').sort();
      t.same(await walked(store, field, 10, 'id:t-7'), found);
    }
    const other = await store.traces.countValues('proj_other', 'span', { limit: 10 });
    t.same([other.items, other.nextCursor], [[], null]);
  });

  t.test('a walk over states finds the state of each trace', async (t) => {
    const { store } = await open(t);
    const kinds: readonly Partial<Observation>[] = [
      { status: 'error', ended: false, endTime: null },
      { status: 'success', ended: true },
      { status: 'running', ended: false, endTime: null },
      { status: 'running', ended: false, endTime: null, startTime: null },
    ];
    await write(
      store,
      kinds.map((kind, i) => ({ traceId: `t-${i}`, id: `o-${i}`, ...kind })),
    );
    const { items } = await store.traces.listTraces(P, { limit: 10 });
    const states = items.map(({ state }) => state).sort();
    t.ok(new Set(states).size >= 3, 'traces have several states');
    for (const size of [1, 10]) t.same(await walked(store, 'state', size), states);
  });
}
