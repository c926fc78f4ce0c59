import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { Project, ProjectChange, ProjectStore } from '../../src/store/store.ts';
import { StoreError } from '../../src/store/store.ts';
import type { ChangedBy, ProjectLimits } from '../../src/store/tenancy.ts';
import { makeId } from '../../src/store/token.ts';
import { byRow } from './audit.ts';
import type { ProjectRow, ProjectSettings } from './operations.ts';
import type { PlansConfig } from './plans.ts';
import { allowedProjects } from './plans.ts';
import type { Retention } from './retention.ts';

const MAX_NAME = 200;
/** A hundred years. */
const MAX_DAYS = 36_500;

export type ProjectParts = {
  readonly database: Database;
  readonly clock: Clock;
  readonly config: PlansConfig;
  readonly retention: Retention;
};

export function sqliteProjects(parts: ProjectParts): ProjectStore {
  const { database, clock, config, retention } = parts;
  const listeners = new Set<(projectId: string) => void>();
  const limitListeners = new Set<(projectId: string, limits: ProjectLimits) => void>();

  /** With their retained traces, counted. */
  async function counted(rows: readonly ProjectRow[]): Promise<Project[]> {
    const windows = rows.map(([id]) => [id, retention.since(id)]);
    const counts = (await database.search('projects.retained', [windows])) as number[];
    return rows.map((row, i) => projectOf(row, counts[i] ?? 0, retention));
  }

  async function create(name: string, by?: ChangedBy): Promise<Project> {
    checkName(name);
    const args = [makeId('proj'), name, clock.now(), allowedProjects(config), byRow(by, clock)];
    const row = (await database.write('projects.create', args)) as ProjectRow | null;
    if (row === null) {
      throw new StoreError('project_limit', 'the plan of the organization allows no more projects');
    }
    return projectOf(row, 0, retention);
  }

  async function update(id: string, change: ProjectChange, by?: ChangedBy): Promise<Project> {
    const { name, limits } = change;
    if (name !== undefined) checkName(name);
    const args = [id, name ?? null, settingsOf(change, retention), byRow(by, clock)];
    const row = (await database.write('projects.update', args)) as ProjectRow | null;
    if (row === null) throw unknownProject(id);
    retention.setOwn(id, row[4]);
    if (limits !== undefined) {
      for (const listener of limitListeners) listener(id, limitsOf(row));
    }
    const [project] = await counted([row]);
    if (project === undefined) throw unknownProject(id);
    return project;
  }

  async function remove(id: string, by?: ChangedBy): Promise<void> {
    const args = [id, clock.now(), byRow(by, clock)];
    const outcome = await database.write('projects.delete', args);
    if (outcome === 'unknown') throw unknownProject(id);
    if (outcome === 'last') {
      throw new StoreError('last_project', 'the last project of an organization cannot be deleted');
    }
    retention.markDeleted(id);
    for (const listener of listeners) listener(id);
  }

  return {
    create,
    update,
    delete: remove,
    async list() {
      return counted((await database.read('projects.list', [])) as ProjectRow[]);
    },
    async get(id) {
      const row = (await database.read('projects.get', [id])) as ProjectRow | null;
      return row === null ? undefined : (await counted([row]))[0];
    },
    async ownLimits() {
      const rows = (await database.read('projects.limited', [])) as ProjectRow[];
      return new Map(rows.map((row) => [row[0], limitsOf(row)]));
    },
    onLimits(listener) {
      limitListeners.add(listener);
      return () => limitListeners.delete(listener);
    },
    onDelete(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function checkName(name: string): void {
  const { length } = [...name];
  if (length < 1 || length > MAX_NAME || name.trim() === '' || !name.isWellFormed()) {
    throw new StoreError('invalid_name', `a name has 1 to ${MAX_NAME} characters`);
  }
}

/** As they are stored, checked. */
function settingsOf(
  { retentionDays, limits }: ProjectChange,
  retention: Retention,
): ProjectSettings {
  if (typeof retentionDays === 'number') checkDays(retentionDays, retention);
  const { eventsPerMonth, bytesPerHour } = limits ?? {};
  for (const limit of [eventsPerMonth, bytesPerHour]) {
    if (typeof limit !== 'number' || (Number.isSafeInteger(limit) && limit >= 1)) continue;
    throw new StoreError('invalid_limits', 'a limit of a project is a whole number from 1');
  }
  return {
    ...(retentionDays === undefined ? {} : { retention_days: retentionDays }),
    ...(eventsPerMonth === undefined ? {} : { events_per_month: eventsPerMonth }),
    ...(bytesPerHour === undefined ? {} : { bytes_per_hour: bytesPerHour }),
  };
}

/** Traces are not kept longer than the plan keeps them; a plan that comes later shortens what was set. */
function checkDays(days: number, { planDays }: Retention): void {
  if (!Number.isInteger(days) || days < 1 || days > MAX_DAYS) {
    throw new StoreError('invalid_retention', `a retention has 1 to ${MAX_DAYS} whole days`);
  }
  if (planDays === null || days <= planDays) return;
  throw new StoreError('invalid_retention', `the plan keeps traces for at most ${planDays} days`);
}

export function unknownProject(id: string): StoreError {
  return new StoreError('unknown_project', `there is no project ${id}`);
}

export function projectOf(row: ProjectRow, retainedTraces: number, retention: Retention): Project {
  const [id, organizationId, name, createdAt] = row;
  const inForce = { days: retention.daysOf(id) };
  const limits = limitsOf(row);
  return { id, organizationId, name, retainedTraces, retention: inForce, limits, createdAt };
}

function limitsOf([, , , , , eventsPerMonth, bytesPerHour]: ProjectRow): ProjectLimits {
  return { eventsPerMonth, bytesPerHour };
}
