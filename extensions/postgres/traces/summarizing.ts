import type { Steps } from '../../../src/component/background.ts';
import type { ChangeFeed } from '../../../src/store/changes.ts';
import type { Contribution } from '../../../src/store/rollups/contribution.ts';
import { contributionOf } from '../../../src/store/rollups/contribution.ts';
import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import { idOfTrace } from '../../../src/store/rows/stored.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../../src/store/rows/trace-terms.ts';
import type { TermMetrics } from '../../../src/store/term-metrics.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import { row, rows } from '../connection/statement.ts';
import { saveSummary } from './changes.ts';
import type { PostedRow, PostedTrace } from './postings.ts';
import { POSTED_ROW_COLUMNS, postingsOfRow } from './postings.ts';
import { insertDelta } from './rollup-folding.ts';
import type { SummarizedTableRow } from './rows.ts';
import { SUMMARIZED_COLUMNS, summarizedEntryOf } from './rows.ts';
import { keyOfBytes, textOrNull } from './text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

type StaleTrace = {
  readonly n: number;
  readonly stale_changes: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly project: string;
  readonly key: Buffer;
  readonly long_id: string | null;
  readonly key_id: string | null;
} & PostedRow;

/**
 * Makes the summaries that writes leave out: of large traces, and of those that an earlier version stored. A trace that changes in between
 * stays for the next round. Each round looks at each trace once.
 */
export async function* summarizeStale(
  client: Database,
  indexed: Pick<TermMetrics, 'leftOut'>,
  changes: Pick<ChangeFeed, 'publish'>,
): Steps {
  let after = 0;
  while (true) {
    const trace = await row<StaleTrace>(
      client,
      `SELECT n, key, long_id, stale_changes, created_at, updated_at, project, key_id, ${POSTED_ROW_COLUMNS}
       FROM traces t WHERE stale_changes > 0 AND n > $1 ORDER BY n LIMIT 1`,
      [after],
    );
    if (trace === undefined) return;
    after = trace.n;
    indexed.leftOut(await summarizeTrace(client, trace));
    const id = idOfTrace(keyOfBytes(trace.key), textOrNull(trace.long_id));
    changes.publish(trace.project, [id]);
    yield;
  }
}

/** Resolves with the number of terms that the trace has too many. */
async function summarizeTrace(client: Database, stale: StaleTrace): Promise<number> {
  const { n, stale_changes: changes } = stale;
  const observations = await rows<SummarizedTableRow>(
    client,
    `SELECT ${SUMMARIZED_COLUMNS.join(', ')} FROM observations WHERE trace = $1`,
    [n],
  );
  // The trace is being created or removed.
  if (observations.length === 0) return 0;
  const summary = summarize(observations.map(summarizedEntryOf), stale.updated_at);
  const [createdAt, keyId] = [stale.created_at, textOrNull(stale.key_id)];
  const terms = traceTerms(stale.project, keyId, summary);
  const trace = { n, createdAt, summary, terms, postings: postingsOfRow(stale) };
  const contribution = contributionOf({ createdAt, keyId, summary });
  await client.transaction((transaction) => save(transaction, { trace, changes, contribution }));
  return terms.unindexed;
}

type MadeStale = {
  readonly trace: Omit<PostedTrace, 'rollup'>;
  readonly changes: number;
  readonly contribution: Contribution;
};

/** Without effect if the trace changed since it was summarized, or is being removed. */
async function save(
  client: PostgresTransaction,
  { trace, changes, contribution }: MadeStale,
): Promise<void> {
  const found = await row<{ project: string; rollup: string | null }>(
    client,
    `SELECT project, rollup FROM traces WHERE n = $1 AND stale_changes = $2 AND project <> ''
     FOR UPDATE`,
    [trace.n, changes],
  );
  if (found === undefined) return;
  const delta = new RollupDelta();
  const rollup = delta.replace(found.rollup, contribution);
  await client.query(...saveSummary(changes, { ...trace, rollup }));
  const saved = await row(client, 'SELECT 1 FROM traces WHERE n = $1 AND stale_changes = 0', [
    trace.n,
  ]);
  if (saved !== undefined) await client.commit(insertDelta(found.project, delta));
}
