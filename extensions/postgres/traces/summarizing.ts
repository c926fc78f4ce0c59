import type { Steps } from '../../../src/component/background.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { saveSummary } from './changes.ts';
import type { SummarizedTableRow } from './rows.ts';
import { SUMMARIZED_COLUMNS, summarizedEntryOf } from './rows.ts';

type StaleTrace = {
  readonly n: number;
  readonly stale_changes: number;
  readonly created_at: number;
  readonly updated_at: number;
};

/**
 * Makes the summaries that writes leave out: of large traces, and of those that an earlier version stored. A trace that changes in between
 * stays for the next round. Each round looks at each trace once.
 */
export async function* summarizeStale(client: PostgresClient): Steps {
  let after = 0;
  while (true) {
    const trace = await row<StaleTrace>(
      client,
      `SELECT n, stale_changes, created_at, updated_at FROM traces
       WHERE stale_changes > 0 AND n > $1 ORDER BY n LIMIT 1`,
      [after],
    );
    if (trace === undefined) return;
    after = trace.n;
    await summarizeTrace(client, trace);
    yield;
  }
}

async function summarizeTrace(client: PostgresClient, stale: StaleTrace): Promise<void> {
  const { n, stale_changes: changes } = stale;
  const observations = await rows<SummarizedTableRow>(
    client,
    `SELECT ${SUMMARIZED_COLUMNS.join(', ')} FROM observations WHERE trace = $1`,
    [n],
  );
  // The trace is being created or removed.
  if (observations.length === 0) return;
  const summary = summarize(observations.map(summarizedEntryOf), stale.updated_at);
  await client.query(...saveSummary(changes, { n, createdAt: stale.created_at, summary }));
}
