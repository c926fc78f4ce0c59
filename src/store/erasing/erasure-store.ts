import type { Clock } from '../../component/component.ts';
import { StoreError } from '../../model/errors.ts';
import type { ProjectStore } from '../../tenancy/contract.ts';
import { cursorAfter, numberOf } from '../../tenancy/cursor.ts';
import { makeId } from '../../tenancy/token.ts';
import type { ErasureRequest, ErasureStore } from '../erasures.ts';
import type { BlockRow, ErasureBlocks } from './blocks.ts';
import { blockHash } from './blocks.ts';
import { namedValues } from './named.ts';
import type { OtherQueues } from './other-queues.ts';
import { erasureOf, erasureText, newRecord, requestedAudit } from './record.ts';
import type { ErasingTables } from './tables.ts';

export type ErasureStoreParts = {
  readonly tables: Pick<ErasingTables, 'add' | 'blocks' | 'get' | 'list'>;
  readonly blocks: ErasureBlocks;
  readonly queues: OtherQueues;
  readonly projects: Pick<ProjectStore, 'get'>;
  readonly clock: Clock;
  /** Called when there is work. */
  wake(): void;
};

export function erasureStore(parts: ErasureStoreParts): ErasureStore {
  const { tables, blocks, queues, projects, clock, wake } = parts;
  return {
    blocks,
    useQueues(all) {
      queues.all = all;
    },
    async request(projectId, request, by) {
      if ((await projects.get(projectId)) === undefined) {
        throw new StoreError('unknown_project', 'the project does not exist');
      }
      const record = newRecord(request, by, clock.now());
      const id = makeId('era');
      const counts = { traces: 0, observations: 0, bytes: 0 };
      const row = { id, project: projectId, ...counts, record: erasureText(record) };
      await tables.add(row, requestedAudit(id, projectId, record), blockRows(projectId, request));
      if (request.blockUntil !== undefined) await blocks.renew(() => tables.blocks(clock.now()));
      wake();
      return erasureOf(row);
    },
    async get(projectId, id) {
      const row = await tables.get(projectId, id);
      return row === undefined ? undefined : erasureOf(row);
    },
    async list(projectId, { limit, cursor }) {
      const found = await tables.list(projectId, numberOf(cursor), limit + 1);
      const shown = found.slice(0, limit);
      const last = shown.at(-1);
      const hasMore = found.length > limit && last !== undefined;
      return {
        items: shown.map(erasureOf),
        nextCursor: hasMore ? cursorAfter(last.n) : null,
      };
    },
  };
}

/** A query that names trace ids and users blocks the traces that have one of each. */
function blockRows(project: string, { query, blockUntil: until }: ErasureRequest): BlockRow[] {
  if (until === undefined) return [];
  const { ids, users } = namedValues(query) ?? { ids: null, users: null };
  return [
    ...(ids ?? []).map((id) => blockHash('id', id)),
    ...(users ?? []).map((user) => blockHash('user', user)),
  ].map((hash) => ({ project, hash, until }));
}
