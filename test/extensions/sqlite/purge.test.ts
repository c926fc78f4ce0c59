import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { readOperations, writeOperations } from '../../../extensions/sqlite/operations.ts';
import type { Observation } from '../../../src/model/observation.ts';
import { recordOf } from '../../../src/queue/record.ts';
import { migrateFile } from '../../../src/sqlite/migrate.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { anObservation, nativeBatch, nativeEvent, testProject as P } from '../../helper/batches.ts';

const AT = 1000;

function rig(t: Test) {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  migrateFile(db, STORE_MIGRATIONS);
  const write = writeOperations(db);
  return {
    write,
    read: readOperations(db),
    run: (sql: string) => db.exec(sql),
    all: (sql: string) => db.prepare(sql).all(),
    /** Writes observations from one batch, and returns its number. */
    store(...list: readonly Partial<Observation>[]): number {
      const observations = list.map((more, index) => anObservation({ ...more, index }));
      const events = observations.map(({ id, traceId }) => nativeEvent({ id, trace_id: traceId }));
      const source = nativeBatch(events, { receivedAt: AT });
      const rows = rowsOf(source, observations, positionsOf(source));
      const about = { project: P, keyId: 'key', batchId: source.id, receivedAt: AT };
      const more = { usageAt: AT, parts: null, namesTraces: false, since: 0, gaps: [] };
      write['traces.write']({ ...rows, ...about, ...more }, recordOf(source));
      const [batch] = db.prepare('SELECT seq FROM raw_batches WHERE id = ?').all(source.id);
      return Number(batch?.['seq']);
    },
  };
}

t.test('a trace expires exactly when its newest event is older than the retention', (t) => {
  const { write, store, all } = rig(t);
  store({});
  t.match(write['purge.traces'](P, AT), { traces: 0, hasMore: false });
  t.match(write['purge.traces'](P, AT + 1), { traces: 1, observations: 1 });
  t.same(all('SELECT n FROM traces'), []);
  t.end();
});

t.test('a trace that is too large for one step leaves its project at once', (t) => {
  const { write, store, all } = rig(t);
  const many = (trace: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({ id: `${trace}-${i}`, traceId: trace }));
  store(...many('small', 199));
  store(...many('large', 200));
  const removed = { traces: 0, observations: 0 };
  let hasMore = true;
  while (hasMore) {
    const step = write['purge.traces'](P, AT + 1);
    removed.traces += step.traces;
    removed.observations += step.observations;
    hasMore = step.hasMore;
    const [left] = all(`SELECT sum(observations) AS n FROM traces WHERE project = '${P}'`);
    const [rows] = all(
      `SELECT count(*) AS n FROM observations o JOIN traces t ON t.n = o.trace WHERE project = '${P}'`,
    );
    t.equal(left?.['n'] ?? 0, rows?.['n'], 'readers find whole traces');
  }
  t.same(removed, { traces: 2, observations: 199 });
  while (write['purge.traces']('', Number.MAX_SAFE_INTEGER).hasMore);
  t.same(all('SELECT n FROM observations'), []);
  t.end();
});

t.test('a batch is noted as partly expired until its last trace expires', (t) => {
  const { write, store, all } = rig(t);
  const shared = store({ id: 'a', traceId: 'a' }, { id: 'b', traceId: 'b' });
  store({ id: 'later', traceId: 'b' });
  store({ id: 'alone', traceId: 'a' });
  const seqs = (table: string) =>
    all(`SELECT seq FROM ${table} ORDER BY seq`).map(({ seq }) => seq);
  const keys = () => all('SELECT key FROM traces').map(({ key }) => key);
  const run = all("SELECT n FROM traces WHERE key = 'b'")[0]?.['n'];
  all(`UPDATE traces SET updated_at = ${AT + 5} WHERE n = ${run}`);
  write['purge.traces'](P, AT + 1);
  t.same(keys(), ['b']);
  t.same(seqs('partly_expired'), [shared]);
  t.same(seqs('free_batches'), [shared + 2]);
  write['purge.traces'](P, AT + 6);
  t.same(seqs('partly_expired'), []);
  t.same(seqs('free_batches'), [shared, shared + 1, shared + 2]);
  t.end();
});

t.test('a batch whose traces change while it is looked at keeps its note', (t) => {
  const { write, read, store, run, all } = rig(t);
  const traces = ['first', 'second', 'kept'];
  const shared = store(...traces.map((traceId) => ({ id: traceId, traceId })));
  for (const [i, trace] of traces.entries()) {
    run(`UPDATE traces SET updated_at = ${AT + i} WHERE key = '${trace}'`);
  }
  const notes = () => all('SELECT seq FROM partly_expired').map(({ seq }) => seq);
  const look = () => read['expired.look'](null, 0);
  run(`INSERT INTO partly_expired VALUES (${shared})`);
  const whole = look();
  t.match(whole, { done: [{ seq: shared }], found: null });
  write['purge.traces'](P, AT + 1);
  write['expired.done'](whole.done);
  t.same(notes(), [shared], 'a trace expired since');
  const cut = () => {
    const { found } = look();
    return { found, write: () => found && write['expired.cut'](found, null) };
  };
  const early = cut();
  write['purge.traces'](P, AT + 2);
  t.equal(early.write(), null, 'another trace expired since');
  const late = cut();
  run(`INSERT INTO batch_traces VALUES (${shared}, 99)`);
  t.equal(late.write(), null, 'a trace came back since');
  t.same(notes(), [shared]);
  const last = cut();
  t.match(last.write(), { seq: shared });
  t.same(notes(), []);
  t.match(all('SELECT items FROM raw_batches'), [{ items: 1 }]);
  t.end();
});

t.test('a free batch stays while a trace, an update, an entry or a dead letter needs it', (t) => {
  const { write, store, run, all } = rig(t);
  const traced = store({});
  const updating = store({ id: 'u', traceId: null });
  const [waiting, dead, free] = ['w', 'd', 'f'].map((traceId) => store({ id: traceId, traceId }));
  run("INSERT INTO queue_branches (id, queue, branch) VALUES (1, 'q', 'a')");
  run(`INSERT INTO queue_pending VALUES (1, ${waiting}, 1, 10, ${AT}, 0, 0)`);
  run(
    `INSERT INTO dead_letters (branch, seq, items, bytes, code, message, failed_at)
     VALUES (1, ${dead}, 1, 10, 'x', 'x', ${AT})`,
  );
  run(`DELETE FROM batch_traces WHERE batch IN (${waiting}, ${dead}, ${free})`);
  const batches = [traced, updating, waiting, dead, free].map(Number);
  write['purge.free'](batches);
  const step = write['purge.batches']();
  t.match(step, { removed: [{ seq: free }], dead: [{ seq: dead, project: P }], hasMore: false });
  t.equal(step.removed.length, 1);
  t.same(
    all('SELECT seq FROM raw_batches ORDER BY seq').map(({ seq }) => seq),
    batches.filter((seq) => seq !== free),
  );
  t.same(all('SELECT seq FROM free_batches'), [], 'the search for orphans finds the others');
  t.same(write['purge.dead'](Number(waiting)), []);
  t.match(write['purge.dead'](Number(dead)), [{ seq: dead, letters: [{ branch: 1, items: 1 }] }]);
  t.end();
});
