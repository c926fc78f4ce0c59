import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { Project, ProjectStore } from '../../src/store/store.ts';
import { StoreError } from '../../src/store/store.ts';
import { makeId } from '../../src/store/token.ts';
import type { ProjectRow } from './operations.ts';

const MAX_NAME = 200;

export function sqliteProjects(database: Database, clock: Clock): ProjectStore {
  return {
    async create(name) {
      checkName(name);
      const args = [makeId('proj'), name, clock.now()];
      return projectOf((await database.write('projects.create', args)) as ProjectRow);
    },
    async list() {
      return ((await database.read('projects.list', [])) as ProjectRow[]).map(projectOf);
    },
    async get(id) {
      const row = (await database.read('projects.get', [id])) as ProjectRow | null;
      return row === null ? undefined : projectOf(row);
    },
  };
}

export function checkName(name: string): void {
  const { length } = [...name];
  if (length < 1 || length > MAX_NAME || name.trim() === '' || !name.isWellFormed()) {
    throw new StoreError('invalid_name', `a name has 1 to ${MAX_NAME} characters`);
  }
}

function projectOf([id, organizationId, name, createdAt]: ProjectRow): Project {
  return { id, organizationId, name, createdAt };
}
