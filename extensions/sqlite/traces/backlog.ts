import type { DatabaseSync } from 'node:sqlite';
import type { Database } from '../../../src/sqlite/database.ts';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Backlog } from '../../../src/store/backlog.ts';
import { LOOKED_AT, leadsTo } from '../../../src/store/backlog.ts';
import type { StoreOperations } from '../operations.ts';

export function sqliteBacklog(database: Database<StoreOperations>): Backlog {
  return {
    newest: (projectId, upTo) =>
      database.search('backlog.newest', [projectId, upTo === undefined ? null : Number(upTo)]),
  };
}

export function backlogOperations(db: DatabaseSync) {
  const branches = tuples<[id: number, name: string]>(db, 'SELECT id, branch FROM queue_branches');
  const waiting = tuples<[seq: number, project: string]>(
    db,
    `SELECT p.seq, r.project FROM queue_pending p JOIN raw_batches r ON r.seq = p.seq
     WHERE p.branch = ? AND p.seq <= ? ORDER BY p.seq LIMIT ${LOOKED_AT + 1}`,
  );
  const newestIn = (branch: number, project: string, upTo: number): number | null => {
    let newest: number | null = null;
    let looked = 0;
    for (const [seq, owner] of waiting.iterate(branch, upTo)) {
      if (looked++ === LOOKED_AT) return seq;
      if (owner === project) newest = seq;
    }
    return newest;
  };
  return {
    'backlog.newest': (project: string, upTo: number | null): number | null => {
      const all = branches
        .all()
        .filter(([, name]) => leadsTo('sqlite', name))
        .map(([id]) => newestIn(id, project, upTo ?? Number.MAX_SAFE_INTEGER))
        .filter((seq) => seq !== null);
      return all.length === 0 ? null : Math.max(...all);
    },
  };
}
