import { StoreError } from '../../../src/model/errors.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import { keyOfId } from '../../../src/store/rows/observation-row.ts';
import {
  cellsOfScore,
  foundScore,
  scoresInOrder,
  storedScore,
} from '../../../src/store/rows/score-rows.ts';
import type { ScoreStore } from '../../../src/store/scores.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';

export function sqliteScores(
  database: Database<StoreOperations>,
  retention: Retention,
): ScoreStore {
  return {
    async put(projectId, traceId, score, most) {
      const state = await database.write('scores.put', [
        projectId,
        keyOfId(traceId),
        cellsOfScore(score),
        most,
      ]);
      if (state === 'project deleted') {
        throw new StoreError('unknown_project', 'the project was deleted');
      }
      return state === 'full' ? state : storedScore(score, state);
    },
    async list(project, traceId) {
      const scope = { project, since: retention.since(project) };
      const found = await database.read('scores.list', [scope, keyOfId(traceId)]);
      return scoresInOrder(found);
    },
    async find(project, id) {
      const scope = { project, since: retention.since(project) };
      const found = await database.read('scores.find', [scope, id]);
      return found && foundScore(found.trace, found);
    },
    remove: (projectId, id) => database.write('scores.remove', [projectId, id]),
  };
}
