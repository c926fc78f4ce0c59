/** Scores of traces. */
import { StoreError } from '../../../src/model/errors.ts';
import { keyOfId } from '../../../src/store/rows/observation-row.ts';
import type { ScoreCells } from '../../../src/store/rows/score-rows.ts';
import {
  cellsOfScore,
  foundScore,
  scoresInOrder,
  storedScore,
} from '../../../src/store/rows/score-rows.ts';
import type { ScoreStore } from '../../../src/store/scores.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { ask, row, rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import { bytesOfKey, escapeText, keyOfBytes, textOrNull } from './text.ts';
import type { RetentionWindows } from './traces.ts';

/** The scores of a trace `t` for a listing, as JSON. The identifiers need no escapes. */
export const LISTED_SCORES = `(SELECT json_agg(json_build_array(
    s.name, s.value, (s.observation IS NULL)::integer, s.updated_at, s.id))::text
  FROM scores s WHERE s.project = t.project AND s.trace = t.key) AS scores`;

const PUT = `
  INSERT INTO scores (project, trace, id, observation, name, value, number, comment, source,
    created_at, updated_at)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
  WHERE EXISTS (SELECT 1 FROM scores WHERE project = $1 AND trace = $2 AND id = $3)
    OR (SELECT count(*) FROM scores WHERE project = $1 AND trace = $2) < $12
  ON CONFLICT (project, trace, id) DO UPDATE SET observation = excluded.observation,
    name = excluded.name, value = excluded.value, number = excluded.number,
    comment = excluded.comment, source = excluded.source, updated_at = excluded.updated_at
  RETURNING created_at`;

const FIND = `
  SELECT trace, id, observation, name, value, number, comment, source, created_at, updated_at
  FROM scores s WHERE s.project = $1 AND s.id = $2 AND (s.updated_at >= $3 OR EXISTS (
    SELECT 1 FROM trace_keys k JOIN traces t ON t.n = k.n
    WHERE k.project = $1 AND k.key = s.trace AND t.updated_at >= $3))
  ORDER BY s.updated_at DESC, s.trace LIMIT 1`;

/** `reading`: for the answers of the read API. */
export function postgresScores(
  database: StoreDatabase,
  retention: RetentionWindows,
  reading: PostgresClient,
): ScoreStore {
  return {
    async put(projectId, traceId, score, most) {
      const key = bytesOfKey(keyOfId(traceId));
      const createdAt = await database.transaction(async (client) => {
        await lock(database, client, projectId, key);
        const cells = cellsOfScore(score);
        const { id, name, value, number, created_at: at, updated_at: updatedAt } = cells;
        const put = await row<{ created_at: number }>(client, PUT, [
          ...[projectId, key, id, escaped(cells.observation), name, value, number],
          ...[escaped(cells.comment), escaped(cells.source), at, updatedAt, most],
        ]);
        return put?.created_at;
      });
      return createdAt === undefined ? 'full' : storedScore(score, createdAt);
    },
    async list(projectId, traceId) {
      const found = await findScores(reading, projectId, retention.since(projectId), traceId);
      return scoresInOrder(found);
    },
    // No stored id has a control character; a path may name one, which Postgres rejects.
    async find(projectId, id) {
      const since = retention.since(projectId);
      const found = await row<ScoreCells & { trace: Buffer }>(reading, FIND, [
        projectId,
        escapeText(id),
        since,
      ]);
      return found && foundScore(keyOfBytes(found.trace), unescaped(found));
    },
    async remove(projectId, id) {
      const sql = 'DELETE FROM scores WHERE project = $1 AND id = $2 RETURNING 1';
      return (await database.query(sql, [projectId, escapeText(id)])).rows.length > 0;
    },
  };
}

/** Two scores of one trace do not count its scores at the same time. */
async function lock(
  database: StoreDatabase,
  client: PostgresTransaction,
  projectId: string,
  key: Buffer,
): Promise<void> {
  const deleted = await ask(client, database.lockForAccept([projectId]));
  if (deleted.has(projectId)) throw new StoreError('unknown_project', 'the project was deleted');
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `tracectl/scores/${projectId}/${key.toString('hex')}`,
  ]);
}

export async function findScores(
  client: PostgresClient,
  projectId: string,
  since: number,
  traceId: string,
): Promise<readonly ScoreCells[]> {
  const found = await rows<ScoreCells>(
    client,
    `SELECT id, observation, name, value, number, comment, source, created_at, updated_at
     FROM scores s WHERE s.project = $1 AND s.trace = $2 AND (s.updated_at >= $3 OR EXISTS (
       SELECT 1 FROM trace_keys k JOIN traces t ON t.n = k.n
       WHERE k.project = $1 AND k.key = $2 AND t.updated_at >= $3))`,
    [projectId, bytesOfKey(keyOfId(traceId)), since],
  );
  return found.map(unescaped);
}

function unescaped(cells: ScoreCells): ScoreCells {
  return {
    ...cells,
    observation: textOrNull(cells.observation),
    comment: textOrNull(cells.comment),
    source: textOrNull(cells.source),
  };
}

/** Removes scores of a project that are older than a time and have no trace, at most `limit`. Resolves with their count. */
export async function removeLoneScores(
  client: PostgresClient,
  projectId: string,
  since: number,
  limit: number,
): Promise<number> {
  const { rows: removed } = await client.query(
    `DELETE FROM scores WHERE project = $1 AND (trace, id) IN (
       SELECT s.trace, s.id FROM scores s WHERE s.project = $1 AND s.updated_at < $2
         AND NOT EXISTS (SELECT 1 FROM trace_keys k WHERE k.project = $1 AND k.key = s.trace)
       LIMIT $3) RETURNING 1`,
    [projectId, since, limit],
  );
  return removed.length;
}

function escaped(text: string | null): string | null {
  return text === null ? null : escapeText(text);
}
