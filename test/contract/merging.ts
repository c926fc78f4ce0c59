import fc from 'fast-check';
import type { Test } from 'tap';
import type { Tenant } from '../../src/model/batch.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { EventRef, ObservationWithEvents, Store } from '../../src/store/store.ts';
import { anObservation, aTenant, testProject as P } from '../helper/batches.ts';
import type { OpenStore } from './place.ts';
import { batchWith, START, T0, write } from './writing.ts';

/** The rules for several events of one observation. */
export function merging(t: Test, open: OpenStore): void {
  const read = (store: Store) => store.traces.getObservation(P, 'observation-1', 'trace-1');

  t.test('merges a finish into its start, and prefers the finish', async (t) => {
    for (const order of ['start first', 'finish first']) {
      const { store } = await open.shared();
      const start = batchWith([
        anObservation({ ...START, name: 'begun', sessionId: 's', payloadMask: 0b00001 }),
      ]);
      const finish = batchWith([
        anObservation({
          name: null,
          startTime: null,
          payloadMask: 0b00010,
          usage: { input_tokens: 3 },
        }),
      ]);
      const batches = order === 'start first' ? [start, finish] : [finish, start];
      for (const batch of batches) await store.traces.write(batch);
      t.match(
        await read(store),
        {
          name: 'begun',
          sessionId: 's',
          status: 'success',
          ended: true,
          startTime: anObservation().startTime,
          endTime: anObservation().endTime,
          usage: { input_tokens: 3 },
          payload: {
            inputs: { batchId: start.source.id, position: 0 },
            outputs: { batchId: finish.source.id, position: 0 },
          },
        },
        order,
      );
    }
  });

  t.test('merges each detail of its own', async (t) => {
    const { store } = await open.shared();
    const cost = { input: null, output: 2, total: 3, source: 'sent' } as const;
    const start = { tags: ['a', 'b'], environment: 'staging', provider: 'x' };
    const finish = { environment: 'production', ttftMs: 1.5, cost };
    await write(store, [anObservation({ ...START, details: start })]);
    await write(store, [anObservation({ details: finish })]);
    await write(store, [anObservation({ details: null })]);
    t.same((await read(store))?.details, { ...start, ...finish });
  });

  t.test('prefers the higher version, for any operation', async (t) => {
    const { store } = await open.shared();
    const versions = [
      '9007199254740993',
      '18446744073709551615',
      '18446744073709551614',
      '9',
      '10',
    ];
    for (const version of versions) {
      const operation = version.startsWith('18446744073709551615') ? 'start' : 'finish';
      await write(store, [anObservation({ version, name: version, operation })]);
    }
    t.match(await read(store), { version: '18446744073709551615', name: '18446744073709551615' });
  });

  t.test('ignores a repeated event', async (t) => {
    const { store } = await open.shared();
    const batches = [
      batchWith([anObservation({ ...START })]),
      batchWith([anObservation({ usage: { input_tokens: 3 } }), anObservation({ name: 'again' })]),
    ];
    for (const batch of batches) await store.traces.write(batch);
    const before = [await read(store), await store.traces.getTrace(P, 'trace-1')];
    for (const batch of [...batches, ...batches]) await store.traces.write(batch);
    t.same([await read(store), await store.traces.getTrace(P, 'trace-1')], before);
  });

  t.test('gives the same row and trace for every order of up to five events', async (t) => {
    const { store } = await open(t);
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(anEvent(), { minLength: 2, maxLength: 5 }), async (events) => {
        const tenant = aTenant({ projectId: `proj_${++runs}` });
        const orders = permutations(events.map((_, place) => place));
        for (const step of events.keys()) await writeStep(store, tenant, events, orders, step);
        const rows: unknown[] = [];
        for (const order of orders) {
          const [id, traceId] = idsOf(order);
          const row = await store.traces.getObservation(tenant.projectId, id, traceId);
          const trace = await store.traces.getTrace(tenant.projectId, traceId);
          rows.push([comparable(row), { ...trace, id: undefined }]);
        }
        for (const row of rows) if (!t.same(row, rows[0])) throw new Error('the order shows');
      }),
      { numRuns: 6, endOnFailure: true },
    );
  });

  t.test('puts an update of a run into its trace, before or after the creation', async (t) => {
    for (const order of ['creation first', 'update first']) {
      const { store } = await open.shared();
      const asRun = { format: 'runs' as const };
      const creation = batchWith([anObservation({ ...START, id: 'run', traceId: 'T' })], asRun);
      const update = batchWith(
        [anObservation({ id: 'run', traceId: null, name: 'patched' })],
        asRun,
      );
      const batches = order === 'creation first' ? [creation, update] : [update, creation];
      for (const batch of batches) await store.traces.write(batch);
      const found = await store.traces.getObservation(P, 'run');
      t.match(found, { traceId: 'T', name: 'patched', status: 'success', source: 'runs' }, order);
      t.equal((await store.traces.getTrace(P, 'T'))?.observationCount, 1);
      for (const batch of batches) await store.traces.write(batch);
      t.same(await store.traces.getObservation(P, 'run'), found, 'repeated, it changes nothing');
    }
  });

  t.test(
    'a run that names only its parent ends up in its parent’s trace, in any order',
    async (t) => {
      const run = (id: string, parentId: string | null, traceId: string | null = null) =>
        anObservation({ ...START, id, parentId, traceId });
      const family = [
        run('root', null, 'T'),
        run('child', 'root'),
        run('grandchild', 'child'),
        run('great-grandchild', 'grandchild'),
        anObservation({ id: 'child', traceId: null, name: 'patched' }),
      ];
      const orders = [
        [0, 1, 2, 3, 4],
        [3, 2, 1, 0, 4],
        [4, 2, 3, 0, 1],
        [2, 4, 1, 3, 0],
        [1, 3, 4, 2, 0],
      ];
      const { store } = await open(t);
      for (const order of orders) {
        for (const together of [true, false]) {
          const project = `proj_${order.join('')}${together}`;
          const tenant = aTenant({ projectId: project });
          const events = order.map((i) => family[i] ?? anObservation());
          const writes = together ? [events] : events.map((one) => [one]);
          for (const some of writes) {
            const own = some.map((one, index) => ({ ...one, index }));
            await store.traces.write(batchWith(own, { format: 'runs', tenant }));
          }
          const { items } = await store.traces.listTraces(project, { limit: 10 });
          const seen = items.map(({ id, observationCount }) => [id, observationCount]);
          t.same(seen, [['T', 4]], project);
          const child = await store.traces.getObservation(project, 'child');
          t.match(child, { traceId: 'T', name: 'patched' });
          const page = await store.traces.listObservations(project, 'T', { limit: 10 });
          const ids = page.items.map(({ id }) => id);
          t.same(ids.sort(), ['child', 'grandchild', 'great-grandchild', 'root']);
        }
      }
    },
  );

  t.test('gives a run without its parent a trace of its own', async (t) => {
    const { store } = await open(t);
    const asRun = { format: 'runs' as const };
    const orphan = anObservation({ ...START, id: 'a', parentId: 'b', traceId: null });
    await write(store, [orphan], asRun);
    t.match(await store.traces.getObservation(P, 'a'), { traceId: 'a', parentId: 'b' });
    // Two that are each other's parent, and one that is its own, hold nothing up.
    await write(store, [anObservation({ ...START, id: 'b', parentId: 'a', traceId: null })], asRun);
    t.equal((await store.traces.getObservation(P, 'b'))?.traceId, 'a');
    const other = { ...asRun, tenant: aTenant({ projectId: 'proj_other' }) };
    await write(store, [anObservation({ ...START, id: 'b', traceId: 'T' })], other);
    t.equal((await store.traces.getObservation(P, 'a'))?.traceId, 'a', 'of its own project alone');
    await write(store, [anObservation({ id: 'a', traceId: 'said' })], asRun);
    t.equal((await store.traces.getObservation(P, 'a'))?.traceId, 'said');
    t.equal((await store.traces.getObservation(P, 'b'))?.traceId, 'said');
    t.equal(await store.traces.getTrace(P, 'a'), undefined);
  });

  t.test('matches updates and creations within a project only', async (t) => {
    const { store, reopen } = await open(t);
    const update = anObservation({ id: 'run', traceId: null, name: 'patched' });
    await write(store, [update], { tenant: aTenant({ projectId: 'proj_other' }) });
    await write(store, [anObservation({ id: 'run', name: 'mine' })]);
    t.equal((await store.traces.getObservation(P, 'run'))?.name, 'mine');
    const after = await reopen();
    await write(after, [anObservation({ ...START, id: 'run' })], {
      tenant: aTenant({ projectId: 'proj_other' }),
    });
    t.equal((await after.traces.getObservation('proj_other', 'run'))?.name, 'patched');
  });
}

/** An event of one observation, with every field there or not. */
function anEvent(): fc.Arbitrary<Observation> {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const time = fc.integer({ min: 0, max: 9 }).map((ms) => ({ ms: T0 + ms, ns: ms }));
  return fc
    .record({
      operation: fc.constantFrom('start' as const, 'finish' as const, 'error' as const),
      version: fc.constantFrom('0', '0', '1', '18446744073709551615'),
      parentId: maybe(fc.constantFrom('p', 'q')),
      name: maybe(fc.constantFrom('n', 'm')),
      kind: maybe(fc.constantFrom('llm' as const, 'chain' as const)),
      status: maybe(fc.constantFrom('running' as const, 'ok' as const)),
      startTime: maybe(time),
      endTime: maybe(time),
      ended: fc.boolean(),
      usage: maybe(fc.record({ input_tokens: fc.integer({ min: 0, max: 9 }) })),
      customFields: maybe(fc.constantFrom({ a: '1' }, { b: '2' })),
      details: maybe(
        fc.constantFrom({ tags: ['a'] }, { tags: ['b'], tool: 't' }, { tool: 'u', ttftMs: 1 }),
      ),
      payloadMask: fc.integer({ min: 0, max: 31 }),
    })
    .map((fields) => anObservation(fields));
}

/** Every order has an observation and a trace of its own. */
function idsOf(order: readonly number[]): [id: string, traceId: string] {
  return [`observation-${order.join('')}`, `trace-${order.join('')}`];
}

/**
 * Writes the next event of every order: one batch for each event, of the orders in which it is next. An event is written once to
 * each trace, and its batch sorts as the event does in the first order.
 */
async function writeStep(
  store: Store,
  tenant: Tenant,
  events: readonly Observation[],
  orders: readonly (readonly number[])[],
  step: number,
): Promise<void> {
  for (const [place, event] of events.entries()) {
    const list = orders
      .filter((order) => order[step] === place)
      .map((order) => {
        const [id, traceId] = idsOf(order);
        return { ...event, id, traceId };
      });
    const id = `${String(place).padStart(6, '0')}${String(step).padStart(20, '0')}`;
    await write(store, list, { id, tenant, receivedAt: T0 + place });
  }
}

function permutations<T>(list: readonly T[]): T[][] {
  if (list.length <= 1) return [[...list]];
  return list.flatMap((first, i) =>
    permutations([...list.slice(0, i), ...list.slice(i + 1)]).map((rest) => [first, ...rest]),
  );
}

/** A row without what names the order's own trace and batches. */
function comparable(row: ObservationWithEvents | undefined): unknown {
  if (row === undefined) return undefined;
  const { id: _, traceId: __, payload, events, ...rest } = row;
  const eventOf = (ref: EventRef): string => ref.batchId.slice(0, 6);
  return {
    ...rest,
    payload: Object.entries(payload).map(([field, ref]) => [field, eventOf(ref)]),
    events: events.map(eventOf).sort(),
  };
}
