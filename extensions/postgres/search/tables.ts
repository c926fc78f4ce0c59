import { MARK } from '../../../src/store/rows/event-rank.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { payloadMarks } from '../../../src/store/rows/observation-row.ts';
import { idOfTrace } from '../../../src/store/rows/stored.ts';
import type {
  SearchChanges,
  SearchPlace,
  SearchStep,
  SearchTables,
  StoredSources,
} from '../../../src/store/search/indexer.ts';
import { NEWEST_PLACE, STEP_OBSERVATIONS } from '../../../src/store/search/indexer.ts';
import type { SearchStatus } from '../../../src/store/search/status.ts';
import { COUNTED_CHANGES } from '../../../src/store/search/status.ts';
import type { SearchSource } from '../../../src/store/search/texts.ts';
import { labelsOf, searchedRefs } from '../../../src/store/search/texts.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { LOCK_TIMEOUT } from '../partitions/partitioned.ts';
import type { ObservationTableRow } from '../traces/rows.ts';
import { entryOf, OBSERVATION_COLUMNS } from '../traces/rows.ts';
import { bytesOfKey, keyOfBytes, textOrNull } from '../traces/text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** The name of no project, whose traces are being removed (batches/purge.ts). */
const HIDDEN = '';

/** An observation with its trace. */
type SourceRow = ObservationTableRow & {
  readonly project: string;
  readonly trace_key: Buffer;
  readonly trace_long_id: string | null;
};
/** Its observation is null if the trace does not have it any more. */
type ChangeRow = Readonly<Record<'change' | 'change_trace' | 'changed', number>> &
  (SourceRow | { readonly n: null });

const COLUMNS = `${OBSERVATION_COLUMNS.map(({ name }) => `o.${name}`).join(', ')},
  t.project, t.key AS trace_key, t.long_id AS trace_long_id`;
/** Postgres does not turn a subquery with OFFSET into a join of whole tables. */
const CHANGES = `
  SELECT c.n AS change, c.trace AS change_trace, c.observation AS changed, ${COLUMNS}
  FROM (SELECT * FROM text_changes ORDER BY n LIMIT ${STEP_OBSERVATIONS}) c
  LEFT JOIN LATERAL (
    SELECT * FROM observations WHERE trace = c.trace AND key = c.key AND n = c.observation OFFSET 0) o ON true
  LEFT JOIN LATERAL (SELECT * FROM traces WHERE n = c.trace OFFSET 0) t ON true
  ORDER BY c.n`;
const STORED = `
  SELECT ${COLUMNS}
  FROM (SELECT * FROM observations WHERE (trace, key) < ($1::bigint, $2::bytea)
    ORDER BY trace DESC, key DESC LIMIT ${STEP_OBSERVATIONS}) o
  JOIN LATERAL (SELECT * FROM traces WHERE n = o.trace OFFSET 0) t ON true
  ORDER BY o.trace DESC, o.key DESC`;

export function searchTables(database: Database, bytes: number): SearchTables {
  return {
    bytes,
    async changes(): Promise<SearchChanges> {
      const found = await rows<ChangeRow>(database, CHANGES);
      const observations = found.map(({ change_trace: trace, changed: n }) => ({ trace, n }));
      const sources = new Map(
        found.flatMap((each) =>
          each.n === null || each.project === HIDDEN ? [] : [[each.n, sourceOf(each)] as const],
        ),
      );
      return {
        numbers: found.map(({ change }) => change),
        ...{ traces: [], observations, sources: [...sources.values()] },
      };
    },
    async place() {
      const state = await searchState(database);
      // Another process has another size: it has begun the index again.
      return state.bytes === bytes ? state.place : null;
    },
    async stored({ trace, key }: SearchPlace): Promise<StoredSources> {
      const found = await rows<SourceRow>(database, STORED, [trace, bytesOfKey(key)]);
      const last = found.at(-1);
      const sources = found.filter(({ project }) => project !== HIDDEN).map(sourceOf);
      const isLast = last === undefined || found.length < STEP_OBSERVATIONS;
      return { sources, next: isLast ? null : { trace: last.trace, key: keyOfBytes(last.key) } };
    },
    save: (step, changes) => database.transaction((client) => save(client, bytes, step, changes)),
  };
}

function sourceOf(found: SourceRow): SearchSource {
  const { n, trace, row: cells, state } = entryOf(found);
  const traceId = idOfTrace(keyOfBytes(found.trace_key), textOrNull(found.trace_long_id));
  const refs = payloadMarks(cells, state).map((mark) =>
    mark === null ? null : { batchId: mark[MARK.BATCH], position: mark[MARK.POSITION] },
  );
  const labels = labelsOf(traceId, cells);
  return { project: found.project, trace, n, labels, fields: searchedRefs(refs) };
}

async function save(
  client: PostgresClient,
  bytes: number,
  { observations, texts, next }: SearchStep,
  changes: readonly number[],
): Promise<void> {
  const state = await row<{ bytes: number }>(client, 'SELECT bytes FROM text_search FOR SHARE');
  if (state?.bytes !== bytes) return;
  // The removal of a trace waits, and then removes these rows too; of removed ones nothing is saved.
  const numbers = [...new Set(texts.map(({ trace }) => trace))];
  const there = await rows<{ n: number }>(
    client,
    'SELECT n FROM traces WHERE n = ANY ($1::bigint[]) ORDER BY n FOR KEY SHARE',
    [numbers],
  );
  const kept = new Set(there.map(({ n }) => n));
  const saved = texts.filter(({ trace }) => kept.has(trace));
  const replaced = [...observations, ...texts];
  await client.query(
    `DELETE FROM payload_texts w USING unnest($1::bigint[], $2::bigint[]) AS g (trace, observation)
     WHERE w.trace = g.trace AND w.observation = g.observation AND w.trace = ANY ($1::bigint[])`,
    [replaced.map(({ trace }) => trace), replaced.map(({ n }) => n)],
  );
  await client.query(
    `INSERT INTO payload_texts (trace, observation, words, tokens)
     SELECT g.trace, g.observation, g.words, g.tokens::bigint[]
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) AS g (trace, observation, words, tokens)`,
    [
      saved.map(({ trace }) => trace),
      saved.map(({ n }) => n),
      saved.map(({ words }) => words),
      saved.map(({ tokens }) => `{${tokens.join(',')}}`),
    ],
  );
  if (changes.length > 0) {
    await client.query('DELETE FROM text_changes WHERE n = ANY ($1::bigint[])', [changes]);
  }
  if (next === undefined) return;
  await client.query('UPDATE text_search SET trace = $1, key = $2, indexed = indexed + $3', [
    next?.trace ?? null,
    next === null ? null : bytesOfKey(next.key),
    texts.length,
  ]);
}

type SearchState = {
  readonly bytes: number;
  readonly place: SearchPlace | null;
  readonly indexed: number;
  readonly stored: number;
};
type StateRow = {
  readonly bytes: number;
  readonly trace: number | null;
  readonly key: Buffer | null;
  readonly indexed: number;
  readonly stored: number;
};

async function searchState(client: PostgresClient): Promise<SearchState> {
  const found = await row<StateRow>(
    client,
    'SELECT bytes, trace, key, indexed, stored FROM text_search',
  );
  if (found === undefined) throw new Error('the table text_search has no row');
  const { bytes, trace, key, indexed, stored } = found;
  const last: Key = key === null ? '' : keyOfBytes(key);
  return { bytes, place: trace === null ? null : { trace, key: last }, indexed, stored };
}

/** Begins the index again if it is of another size than `bytes`, which is 0 without payload search. */
export async function configureSearch(database: Database, bytes: number): Promise<void> {
  if ((await searchState(database)).bytes === bytes) return;
  await database.transaction(async (client) => {
    await client.query(LOCK_TIMEOUT);
    // Waits for the writes that may not have noted their changes.
    await client.query('LOCK TABLE text_search IN ACCESS EXCLUSIVE MODE');
    await client.query('TRUNCATE payload_texts, text_changes');
    const isOn = bytes > 0;
    await client.query(
      `UPDATE text_search SET bytes = $1, trace = $2, key = $3, indexed = 0, stored = (
         SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
         FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'observations'::regclass)`,
      [bytes, isOn ? NEWEST_PLACE.trace : null, isOn ? bytesOfKey(NEWEST_PLACE.key) : null],
    );
  });
}

export async function searchStatus(client: PostgresClient): Promise<SearchStatus> {
  const { bytes, place, indexed, stored } = await searchState(client);
  const waiting = await row<{ count: number }>(
    client,
    `SELECT count(*) AS count FROM (SELECT 1 FROM text_changes LIMIT ${COUNTED_CHANGES}) c`,
  );
  const onState = place === null ? 'ready' : 'indexing';
  return {
    state: bytes === 0 ? 'off' : onState,
    payloadBytes: bytes === 0 ? null : bytes,
    ...{ indexed, stored: Math.max(stored, indexed), waiting: waiting?.count ?? 0 },
  };
}
