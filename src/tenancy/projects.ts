import type { Clock } from '../component/component.ts';
import { StoreError } from '../model/errors.ts';
import { byRow } from './audit.ts';
import type { ChangedBy, Project, ProjectChange, ProjectLimits, ProjectStore } from './contract.ts';
import type { PlansConfig } from './plans.ts';
import { allowedProjects } from './plans.ts';
import type { Retention } from './retention.ts';
import type { ProjectRow, ProjectSettings, TenancyRows } from './rows.ts';
import { makeId } from './token.ts';

const MAX_NAME = 200;
/** A hundred years, in days. */
const MAX_DAYS = 36_500;

export type ProjectParts = {
  readonly rows: TenancyRows;
  readonly clock: Clock;
  readonly config: PlansConfig;
  readonly retention: Retention;
};

export type Projects = ProjectStore & {
  /** Applies a change of another process. */
  refresh(projectId: string): Promise<void>;
  /** Reads all changes of other processes. */
  refreshAll(): Promise<void>;
};

export function projectStore(parts: ProjectParts): Projects {
  const { rows, clock, config, retention } = parts;
  const listeners = new Set<(projectId: string) => void>();
  const limitListeners = new Set<(projectId: string, limits: ProjectLimits) => void>();

  async function create(name: string, by?: ChangedBy): Promise<Project> {
    checkName(name);
    const row = await rows.createProject(
      makeId('proj'),
      name,
      clock.now(),
      allowedProjects(config),
      byRow(by, clock),
    );
    if (row === null) {
      throw new StoreError('project_limit', 'the plan allows no further project');
    }
    return projectOf(row, 0, retention);
  }

  async function update(id: string, change: ProjectChange, by?: ChangedBy): Promise<Project> {
    const { name, limits } = change;
    if (name !== undefined) checkName(name);
    const settings = settingsOf(change, retention);
    const row = await rows.updateProject(id, name ?? null, settings, byRow(by, clock));
    if (row === null) throw unknownProject(id);
    changed(row, limits !== undefined);
    const [project] = await counted(parts, [row]);
    if (project === undefined) throw unknownProject(id);
    return project;
  }

  function changed(row: ProjectRow, hasLimits: boolean): void {
    const { id, retentionDays } = row;
    retention.setOwn(id, retentionDays);
    if (!hasLimits) return;
    for (const listener of limitListeners) listener(id, limitsOf(row));
  }

  async function remove(id: string, by?: ChangedBy): Promise<void> {
    const outcome = await rows.deleteProject(id, clock.now(), byRow(by, clock));
    if (outcome === 'unknown') throw unknownProject(id);
    if (outcome === 'last') {
      throw new StoreError('last_project', 'the last project of an organization cannot be deleted');
    }
    removed(id);
  }

  function removed(id: string): void {
    retention.markDeleted(id);
    for (const listener of listeners) listener(id);
  }

  return {
    create,
    update,
    delete: remove,
    list: async () => counted(parts, await rows.projects()),
    async get(id) {
      const row = await rows.project(id);
      return row === null ? undefined : (await counted(parts, [row]))[0];
    },
    organizationOf: async (id) => (await rows.project(id))?.organization,
    async ownLimits() {
      return new Map((await rows.limitedProjects()).map((row) => [row.id, limitsOf(row)]));
    },
    async refresh(id) {
      const row = await rows.project(id);
      if (row !== null) changed(row, true);
      else if (!retention.isDeleted(id)) removed(id);
    },
    async refreshAll() {
      for (const row of await rows.projects()) changed(row, true);
      for (const id of await rows.openRemovals()) if (!retention.isDeleted(id)) removed(id);
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

/** Projects with the number of their retained traces. */
async function counted(
  { rows, retention }: ProjectParts,
  found: readonly ProjectRow[],
): Promise<Project[]> {
  const windows = found.map(({ id }) => ({ project: id, since: retention.since(id) }));
  const counts = await rows.retainedTraces(windows);
  return found.map((row, i) => projectOf(row, counts[i] ?? 0, retention));
}

export function checkName(name: string): void {
  const { length } = [...name];
  if (length < 1 || length > MAX_NAME || name.trim() === '' || !name.isWellFormed()) {
    throw new StoreError('invalid_name', `a name must have 1 to ${MAX_NAME} characters`);
  }
}

/** Checks limits and returns them as columns. */
function settingsOf(
  { retentionDays, limits }: ProjectChange,
  retention: Retention,
): ProjectSettings {
  if (typeof retentionDays === 'number') checkDays(retentionDays, retention);
  const { eventsPerMonth, bytesPerHour } = limits ?? {};
  for (const limit of [eventsPerMonth, bytesPerHour]) {
    if (typeof limit !== 'number' || (Number.isSafeInteger(limit) && limit >= 1)) continue;
    throw new StoreError('invalid_limits', 'a limit of a project must be a whole number from 1');
  }
  return {
    ...(retentionDays === undefined ? {} : { retention_days: retentionDays }),
    ...(eventsPerMonth === undefined ? {} : { events_per_month: eventsPerMonth }),
    ...(bytesPerHour === undefined ? {} : { bytes_per_hour: bytesPerHour }),
  };
}

/** The plan's retention is the upper bound, also for a retention that was set under another plan. */
function checkDays(days: number, { planDays }: Retention): void {
  if (!Number.isInteger(days) || days < 1 || days > MAX_DAYS) {
    throw new StoreError('invalid_retention', `a retention must be 1 to ${MAX_DAYS} whole days`);
  }
  if (planDays === null || days <= planDays) return;
  throw new StoreError(
    'invalid_retention',
    `the plan allows a retention of at most ${planDays} days`,
  );
}

export function unknownProject(id: string): StoreError {
  return new StoreError('unknown_project', `project ${id} does not exist`);
}

function projectOf(row: ProjectRow, retainedTraces: number, retention: Retention): Project {
  const { id, organization: organizationId, name, createdAt } = row;
  const inForce = { days: retention.daysOf(id) };
  const limits = limitsOf(row);
  return { id, organizationId, name, retainedTraces, retention: inForce, limits, createdAt };
}

function limitsOf({ eventsPerMonth, bytesPerHour }: ProjectRow): ProjectLimits {
  return { eventsPerMonth, bytesPerHour };
}
