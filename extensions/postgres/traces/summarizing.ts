import type { Steps } from '../../../src/component/background.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../../src/store/rows/trace-terms.ts';
import type { TermMetrics } from '../../../src/store/term-metrics.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { saveSummary } from './changes.ts';
import type { PostedRow } from './postings.ts';
import { POSTED_ROW_COLUMNS, postingsOfRow } from './postings.ts';
import type { SummarizedTableRow } from './rows.ts';
import { SUMMARIZED_COLUMNS, summarizedEntryOf } from './rows.ts';
import { textOrNull } from './text.ts';

type StaleTrace = {
  readonly n: number;
  readonly stale_changes: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly project: string;
  readonly key_id: string | null;
} & PostedRow;

/**
 * Makes the summaries that writes leave out: of large traces, and of those that an earlier version stored. A trace that changes in between
 * stays for the next round. Each round looks at each trace once.
 */
export async function* summarizeStale(
  client: PostgresClient,
  indexed: Pick<TermMetrics, 'leftOut'>,
): Steps {
  let after = 0;
  while (true) {
    const trace = await row<StaleTrace>(
      client,
      `SELECT n, stale_changes, created_at, updated_at, project, key_id, ${POSTED_ROW_COLUMNS}
       FROM traces t WHERE stale_changes > 0 AND n > $1 ORDER BY n LIMIT 1`,
      [after],
    );
    if (trace === undefined) return;
    after = trace.n;
    indexed.leftOut(await summarizeTrace(client, trace));
    yield;
  }
}

/** Resolves with the number of terms that the trace has too many. */
async function summarizeTrace(client: PostgresClient, stale: StaleTrace): Promise<number> {
  const { n, stale_changes: changes } = stale;
  const observations = await rows<SummarizedTableRow>(
    client,
    `SELECT ${SUMMARIZED_COLUMNS.join(', ')} FROM observations WHERE trace = $1`,
    [n],
  );
  // The trace is being created or removed.
  if (observations.length === 0) return 0;
  const summary = summarize(observations.map(summarizedEntryOf), stale.updated_at);
  const terms = traceTerms(stale.project, textOrNull(stale.key_id), summary);
  const postings = postingsOfRow(stale);
  const trace = { n, createdAt: stale.created_at, summary, terms, postings };
  await client.query(...saveSummary(changes, trace));
  return terms.unindexed;
}
