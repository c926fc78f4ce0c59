import { deepStrictEqual } from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import type { Test } from 'tap';
import t from 'tap';
import type { OpenSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { ulid } from '../../../src/model/ulid.ts';
import type { DurableQueue } from '../../../src/queue/queue.ts';
import { HOUR } from '../../../src/store/rollups/fold.ts';
import type { Store } from '../../../src/store/store.ts';
import { recount, rollups } from '../../contract/rollup-oracle.ts';
import { aTenant, nativeEvent, rawBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const QUEUE = { name: 'q', branches: ['a'], maxBytes: 1e9 };
const DELIVER = { max: 8, bytes: 1e9 };
/** Drawn histories; each opens the store several times. */
const RUNS = 5;

/** A store with a queue in front, whose deliveries end with an acknowledgement or with a crash. */
async function delivering(t: Test, retentionDays = 1) {
  const place = sqlitePlace(t);
  let opened: OpenSqliteStore = await place.open();
  let queue: DurableQueue = await opened.store.openQueue(QUEUE);
  let isClosed = false;
  const close = async () => {
    if (!isClosed) await opened.close();
    isClosed = true;
    rmSync(backup, { force: true });
  };
  t.teardown(close);
  const [project] = await opened.store.projects.list();
  const projectId = project?.id ?? '';
  await opened.store.projects.update(projectId, { retentionDays });
  const file = join(place.directory, 'store.db');
  const backup = join(place.directory, 'backup.db');

  async function open(): Promise<void> {
    opened = await place.open();
    queue = await opened.store.openQueue(QUEUE);
  }

  return {
    ...place,
    projectId,
    store: (): Store => opened.store,
    finish: () => opened.finish(),
    close,
    /** The differences of rollups and rows, and the ids of all observations. */
    async compared() {
      const now = Math.ceil(place.clock.now() / HOUR_MS);
      const hours = { from: now - 24 * 100, to: now + 1 };
      const found = await rollups(opened.store, projectId, hours, HOUR);
      const expected = await recount(opened.store, projectId, HOUR);
      const keys = [...new Set([...Object.keys(found), ...Object.keys(expected)])];
      const problems = keys
        .filter((key) => JSON.stringify(found[key]) !== JSON.stringify(expected[key]))
        .map(
          (key) => `${key}: ${JSON.stringify(found[key])}, not ${JSON.stringify(expected[key])}`,
        );
      const observations = new Set<string>();
      for (const { id } of (await opened.store.traces.listTraces(projectId, { limit: 100 }))
        .items) {
        const page = await opened.store.traces.listObservations(projectId, id, { limit: 100 });
        for (const each of page.items) observations.add(each.id);
      }
      return { problems, observations };
    },
    /** Receives a batch now. */
    append: (format: 'native' | 'runs', body: object, items: number) => {
      const at = place.clock.now();
      const tenant = aTenant({ projectId });
      const more = { id: ulid(at), tenant, receivedAt: at };
      return queue.append(rawBatch(format, Buffer.from(JSON.stringify(body)), items, more));
    },
    async deliver(isAcknowledged: boolean): Promise<void> {
      const entries = await queue.lease('a', DELIVER.max, DELIVER.bytes);
      for (const { batch } of entries) await store(opened, batch);
      if (isAcknowledged) await queue.ack('a', entries);
    },
    async crash(): Promise<void> {
      await opened.crash();
      await open();
    },
    backUp(): void {
      rmSync(backup, { force: true });
      const db = new DatabaseSync(file, { readOnly: true });
      db.prepare('VACUUM INTO ?').run(backup);
      db.close();
    },
    async restore(): Promise<void> {
      await opened.crash();
      for (const ending of ['', '-wal', '-shm']) rmSync(file + ending, { force: true });
      const db = new DatabaseSync(backup, { readOnly: true });
      db.prepare('VACUUM INTO ?').run(file);
      db.close();
      await open();
    },
    /** How many traces the rollups have of each name, over all hours. */
    async counts(): Promise<Record<string, number>> {
      const now = Math.ceil(place.clock.now() / HOUR_MS);
      const hours = { from: now - 24 * 100, to: now + 1 };
      const sums = await rollups(opened.store, projectId, hours, HOUR);
      const counts: Record<string, number> = {};
      for (const [key, { numbers }] of Object.entries(sums)) {
        const [field, name] = JSON.parse(key);
        if (field === 'name') counts[name] = (counts[name] ?? 0) + (numbers[0] ?? 0);
      }
      return counts;
    },
  };
}

async function store({ store }: OpenSqliteStore, source: SealedBatch): Promise<void> {
  await store.traces.write({ kind: 'observations', source, observations: observe(source) });
}

function events(...traces: string[]) {
  return { events: traces.map((name) => nativeEvent({ id: name, trace_id: name, name })) };
}

t.test('a batch that is delivered again behind its retention counts once', async (t) => {
  const at = await delivering(t);
  await at.append('native', events('x', 'y'), 2);
  await at.deliver(false);
  at.clock.advance(2 * DAY_MS);
  await at.finish();
  await at.crash();
  await at.deliver(true);
  await at.finish();
  t.same(await at.counts(), { x: 1, y: 1 });
});

/** An operation of a drawn history. */
type Step =
  | { readonly do: 'append'; readonly runs: readonly DrawnRun[] }
  | { readonly do: 'deliver'; readonly isAcknowledged: boolean }
  | { readonly do: 'wait'; readonly hours: number }
  | { readonly do: 'finish' | 'crash' | 'backUp' | 'restore' };
/** A run is its trace's root if it has the number of its trace. */
type DrawnRun = {
  readonly trace: number;
  readonly own: number;
  readonly form: 'named' | 'child' | 'update';
};

const drawnRun = fc.record({
  trace: fc.nat(3),
  own: fc.nat(3),
  form: fc.constantFrom<DrawnRun['form']>('named', 'child', 'child', 'update'),
});
const one = <Name extends string>(name: Name) => fc.constant({ do: name } as const);
const deliver = fc.record({ do: fc.constant('deliver' as const), isAcknowledged: fc.boolean() });

function drawnStep(mostHours: number): fc.Arbitrary<Step> {
  const runs = fc.array(drawnRun, { minLength: 1, maxLength: 4 });
  const append = fc.record({ do: fc.constant('append' as const), runs });
  const wait = fc.record({ do: fc.constant('wait' as const), hours: fc.nat(mostHours) });
  return fc.oneof(
    { weight: 6, arbitrary: append },
    { weight: 6, arbitrary: deliver },
    { weight: 3, arbitrary: wait },
    { weight: 2, arbitrary: fc.oneof(one('finish'), one('crash')) },
    { weight: 2, arbitrary: fc.oneof(one('backUp'), one('restore')) },
  );
}

type Delivering = Awaited<ReturnType<typeof delivering>>;

async function take(
  at: Delivering,
  step: Step,
  append: (runs: readonly DrawnRun[]) => Promise<void>,
) {
  if (step.do === 'append') await append(step.runs);
  else if (step.do === 'deliver') await at.deliver(step.isAcknowledged);
  else if (step.do === 'wait') at.clock.advance(step.hours * HOUR_MS);
  else if (step.do === 'backUp') at.backUp();
  else await at[step.do]();
}

/** Delivers everything that waits. */
async function settle(at: Delivering): Promise<void> {
  await at.crash();
  for (let i = 0; i < 20; i++) await at.deliver(true);
  await at.finish();
}

const idOf = (trace: number, own: number): string =>
  own === 0 ? `trace ${trace}` : `run ${own} of ${trace}`;

function bodyOf(runs: readonly DrawnRun[], startMs: number): object {
  const time = new Date(startMs).toISOString();
  const post: object[] = [];
  const patch: object[] = [];
  for (const { trace, own, form } of runs) {
    const id = idOf(trace, own);
    const base = { id, name: id, run_type: 'chain', start_time: time };
    if (form === 'update') patch.push({ id, end_time: time, outputs: { text: `${own}` } });
    else if (form === 'named') post.push({ ...base, trace_id: idOf(trace, 0) });
    else if (own === 0) post.push(base);
    else post.push({ ...base, parent_run_id: idOf(trace, own - 1) });
  }
  return { post, patch };
}

t.test(
  'after kills, restores and repetitions the rollups equal a recount of the rows',
  async (t) => {
    const history = fc.array(drawnStep(3), { minLength: 5, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const at = await delivering(t, 400);
        let sent: string[] = [];
        let backedUp: string[] = [];
        at.backUp();
        for (const step of steps) {
          await take(at, step, async (runs) => {
            for (const { trace, own, form } of runs)
              if (form !== 'update') sent.push(idOf(trace, own));
            await at.append('runs', bodyOf(runs, at.clock.now()), runs.length);
          });
          if (step.do === 'backUp') backedUp = [...sent];
          if (step.do === 'restore') sent = [...backedUp];
        }
        await settle(at);
        const { problems, observations } = await at.compared();
        deepStrictEqual(problems, []);
        deepStrictEqual(observations, new Set(sent));
        await at.close();
      }),
      { numRuns: RUNS },
    );
  },
);

t.test('with a retention, no batch counts twice however often it is delivered', async (t) => {
  const history = fc.array(drawnStep(20), { minLength: 5, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const at = await delivering(t);
      let n = 0;
      let sent: string[] = [];
      let backedUp: string[] = [];
      at.backUp();
      for (const step of steps) {
        await take(at, step, async (runs) => {
          const names = runs.map(() => `t${n++}`);
          sent.push(...names);
          await at.append('native', events(...names), names.length);
        });
        if (step.do === 'backUp') backedUp = [...sent];
        if (step.do === 'restore') sent = [...backedUp];
      }
      await settle(at);
      const counts = await at.counts();
      const once = sent.map((name) => [name, 1] as const);
      deepStrictEqual(new Map(Object.entries(counts)), new Map(once));
      await at.close();
    }),
    { numRuns: RUNS },
  );
});
