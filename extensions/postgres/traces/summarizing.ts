import type { Steps } from '../../../src/component/background.ts';
import { contributionOf } from '../../../src/store/rollups/contribution.ts';
import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { TraceSummary } from '../../../src/store/rows/trace-summary.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import { row, rows } from '../connection/statement.ts';
import { saveSummary } from './changes.ts';
import { insertDelta } from './rollups.ts';
import type { SummarizedTableRow } from './rows.ts';
import { SUMMARIZED_COLUMNS, summarizedEntryOf } from './rows.ts';
import { textOrNull } from './text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

type StaleTrace = {
  readonly n: number;
  readonly stale_changes: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly key_id: string | null;
};

/**
 * Makes the summaries that writes leave out: of large traces, and of those that an earlier version stored. A trace that changes in between
 * stays for the next round. Each round looks at each trace once.
 */
export async function* summarizeStale(client: Database): Steps {
  let after = 0;
  while (true) {
    const trace = await row<StaleTrace>(
      client,
      `SELECT n, stale_changes, created_at, updated_at, key_id FROM traces
       WHERE stale_changes > 0 AND n > $1 ORDER BY n LIMIT 1`,
      [after],
    );
    if (trace === undefined) return;
    after = trace.n;
    await summarizeTrace(client, trace);
    yield;
  }
}

async function summarizeTrace(client: Database, stale: StaleTrace): Promise<void> {
  const { n, stale_changes: changes } = stale;
  const observations = await rows<SummarizedTableRow>(
    client,
    `SELECT ${SUMMARIZED_COLUMNS.join(', ')} FROM observations WHERE trace = $1`,
    [n],
  );
  // The trace is being created or removed.
  if (observations.length === 0) return;
  const summary = summarize(observations.map(summarizedEntryOf), stale.updated_at);
  const trace = { createdAt: stale.created_at, keyId: textOrNull(stale.key_id), summary };
  await client.transaction((transaction) => save(transaction, { ...trace, n, changes }));
}

type SummarizedStale = {
  readonly n: number;
  readonly changes: number;
  readonly createdAt: number;
  readonly keyId: string | null;
  readonly summary: TraceSummary;
};

/** Without effect if the trace changed since it was summarized, or is being removed. */
async function save(client: PostgresTransaction, trace: SummarizedStale): Promise<void> {
  const { n, changes } = trace;
  const found = await row<{ project: string; rollup: string | null }>(
    client,
    `SELECT project, rollup FROM traces WHERE n = $1 AND stale_changes = $2 AND project <> ''
     FOR UPDATE`,
    [n, changes],
  );
  if (found === undefined) return;
  const delta = new RollupDelta();
  const rollup = delta.replace(found.rollup, contributionOf(trace));
  const statements = [saveSummary(changes, { ...trace, rollup })];
  await client.commit([...statements, ...insertDelta(found.project, delta)]);
}
