import { StoreError } from '../../src/model/errors.ts';
import { ChangeFeed } from '../../src/store/changes.ts';
import { SEARCH_OFF } from '../../src/store/search/status.ts';
import type { Store } from '../../src/store/store.ts';
import type {
  ApiKey,
  AuditEntry,
  AuditFilter,
  ChangedBy,
  Limits,
  Organization,
  PlanName,
  Project,
  ProjectChange,
  RejectionEntry,
  UsageRow,
} from '../../src/tenancy/contract.ts';
import { PLAN_NAMES } from '../../src/tenancy/contract.ts';
import { makeId, makeToken, shownPrefix } from '../../src/tenancy/token.ts';
import { fakeClock } from './clock.ts';
import { fakeAttachments } from './fake-attachments.ts';
import { fakeErasures } from './fake-erasures.ts';
import { fakeGroups } from './fake-groups.ts';
import { fakeRanks } from './fake-ranks.ts';
import { fakeRollups } from './fake-rollups.ts';
import { fakeScores } from './fake-scores.ts';
import { fakeTraces, type HeldTraces } from './fake-traces.ts';
import { fakeUiSessions } from './fake-ui-sessions.ts';

/** A store in memory, for tests of what manages and reads one. The traces of `held` belong to its first project. */
export type FakeStore = Store & {
  readonly held: HeldTraces;
  readonly entries: AuditEntry[];
  readonly rows: UsageRow[];
  readonly refused: RejectionEntry[];
  /** From now on every call rejects with this; undefined ends it. */
  fail(error: Error | undefined): void;
};

const PROJECTS = { free: 1, pro: null, scale: null, enterprise: null } as const;
const AT = Date.UTC(2026, 10, 20);

export function fakeStore(plan: PlanName = 'scale'): FakeStore {
  const projects = new Map<string, Project>();
  const keys: ApiKey[] = [];
  const entries: AuditEntry[] = [];
  const rows: UsageRow[] = [];
  const refused: RejectionEntry[] = [];
  let failure: Error | undefined;
  let name = 'organization';
  let current = plan;

  const note = (
    by: ChangedBy | undefined,
    action: string,
    subject: string,
    details: AuditEntry['details'],
  ) => {
    if (by !== undefined) entries.push({ at: AT, ...by, action, subject, details });
  };
  const limitsOn = (name: PlanName): Limits => ({
    projects: PROJECTS[name],
    eventsPerMonth: 50_000,
    bytesPerHour: null,
    retentionDays: 14,
  });
  const organization = (): Organization => ({
    id: 'org_1',
    name,
    plan: current,
    limits: limitsOn(current),
    createdAt: AT,
  });
  const found = (id: string): Project => {
    const project = projects.get(id);
    if (project === undefined) throw new StoreError('unknown_project', 'there is no such project');
    return project;
  };
  const add = (given: string): Project => {
    const project: Project = {
      id: makeId('proj'),
      organizationId: 'org_1',
      name: given,
      retainedTraces: 0,
      retention: { days: 14 },
      limits: { eventsPerMonth: null, bytesPerHour: null },
      createdAt: AT,
    };
    projects.set(project.id, project);
    return project;
  };
  const page = <T>(all: readonly T[], { limit, cursor }: { limit: number; cursor?: string }) => {
    const from = cursor === undefined ? 0 : Number(cursor);
    if (!Number.isInteger(from)) throw new StoreError('invalid_cursor', 'no such cursor');
    const items = all.toReversed().slice(from, from + limit);
    const isLast = from + limit >= all.length;
    return { items, nextCursor: isLast ? null : String(from + limit) };
  };
  const guarded = <T extends object>(part: T): T =>
    new Proxy(part, {
      get(target, property) {
        const value = Reflect.get(target, property) as
          | ((...args: unknown[]) => unknown)
          | undefined;
        // An optional operation that the fake does not have.
        if (value === undefined) return undefined;
        return (...args: unknown[]) => {
          if (failure !== undefined) return Promise.reject(failure);
          return value(...args);
        };
      },
    });

  add('default');
  const parts = {
    organization: guarded({
      get: async () => organization(),
      plans: async () =>
        Object.fromEntries(PLAN_NAMES.map((each) => [each, limitsOn(each)] as const)),
      async update(change: { name?: string; plan?: PlanName }, by?: ChangedBy) {
        const allowed = PROJECTS[change.plan ?? current];
        if (allowed !== null && projects.size > allowed) {
          const surplus = projects.size - allowed;
          throw new StoreError('plan_limit', `delete ${surplus} projects first`);
        }
        name = change.name ?? name;
        current = change.plan ?? current;
        note(by, 'organization.update', 'org_1', change);
        return organization();
      },
    }),
    projects: guarded({
      async create(given: string, by?: ChangedBy) {
        const allowed = PROJECTS[current];
        if (allowed !== null && projects.size >= allowed) {
          throw new StoreError('project_limit', `the plan ${current} allows ${allowed} project`);
        }
        const project = add(given);
        note(by, 'project.create', project.id, { name: given });
        return project;
      },
      list: async () => [...projects.values()],
      get: async (id: string) => projects.get(id),
      organizationOf: async (id: string) => projects.get(id)?.organizationId,
      async update(id: string, change: ProjectChange, by?: ChangedBy) {
        const project = found(id);
        const days = change.retentionDays ?? 14;
        if (days > 14) throw new StoreError('invalid_retention', 'the plan keeps 14 days at most');
        const changed = {
          ...project,
          name: change.name ?? project.name,
          retention: { days },
          limits: { ...project.limits, ...change.limits },
        };
        projects.set(id, changed);
        const { retentionDays, limits: _limits, ...details } = change;
        const retained = retentionDays === undefined ? {} : { retention_days: retentionDays };
        note(by, 'project.update', id, { ...details, ...retained });
        return changed;
      },
      async delete(id: string, by?: ChangedBy) {
        const { name: deleted } = found(id);
        if (projects.size === 1) throw new StoreError('last_project', 'the last project stays');
        projects.delete(id);
        note(by, 'project.delete', id, { name: deleted });
      },
    }),
    keys: guarded({
      async create(request: Parameters<Store['keys']['create']>[0], by?: ChangedBy) {
        found(request.projectId);
        const token = makeToken();
        const key: ApiKey = {
          id: makeId('key'),
          projectId: request.projectId,
          organizationId: 'org_1',
          name: request.name ?? 'key',
          prefix: shownPrefix(token),
          permissions: request.permissions ?? ['ingest:write', 'traces:read'],
          createdAt: AT,
          lastUsedAt: null,
          revokedAt: null,
        };
        keys.unshift(key);
        note(by, 'key.create', key.id, {
          project_id: key.projectId,
          name: key.name,
          permissions: key.permissions.join(','),
        });
        return { key, token };
      },
      list: async (projectId?: string) =>
        keys.filter((key) => projectId === undefined || key.projectId === projectId),
      async revoke(id: string, by?: ChangedBy) {
        const at = keys.findIndex((key) => key.id === id);
        const key = keys[at];
        if (key === undefined) throw new StoreError('unknown_key', 'there is no such key');
        const revoked = { ...key, revokedAt: key.revokedAt ?? AT };
        keys[at] = revoked;
        if (key.revokedAt === null) {
          note(by, 'key.revoke', id, { project_id: key.projectId, name: key.name });
        }
        return revoked;
      },
    }),
    counters: guarded({
      read: () => ({
        month: { events: 7, resetsAt: Date.UTC(2026, 11, 1) },
        hour: { bytes: 70, resetsAt: AT + 3_600_000 },
      }),
    }),
    usage: guarded({
      history: async ({ projectId }: Parameters<Store['usage']['history']>[0]) =>
        rows.filter((row) => projectId === undefined || row.projectId === projectId),
      verify: async () => [],
    }),
    rejections: guarded({
      list: async (id: string, asked: { limit: number; cursor?: string }) =>
        page(
          refused.filter(({ projectId }) => projectId === id),
          asked,
        ),
    }),
    audit: guarded({
      async record(entry: AuditEntry) {
        entries.push(entry);
      },
      list: async (asked: AuditFilter & { limit: number; cursor?: string }) =>
        page(
          entries.filter((entry) => isWanted(entry, asked)),
          asked,
        ),
    }),
    changes: new ChangeFeed(),
    backlog: guarded({ newest: async () => null }),
    search: guarded({ status: async () => SEARCH_OFF }),
    costs: guarded({ usePricing: async () => undefined, priceAgain: async () => null }),
  };
  const held: HeldTraces = {};
  const first = (): string => [...projects.keys()][0] ?? '';
  const fake = {
    ...parts,
    traces: guarded(fakeTraces(first, held)),
    groups: guarded(fakeGroups(first, held)),
    ranks: guarded(fakeRanks(first, held)),
    rollups: guarded(fakeRollups(first)),
    scores: guarded(fakeScores()),
    attachments: guarded(fakeAttachments()),
    uiSessions: guarded(fakeUiSessions(note)),
    erasures: guarded(fakeErasures(parts.projects, fakeClock(AT))),
    held,
    entries,
    rows,
    refused,
    fail(error: Error | undefined) {
      failure = error;
    },
  };
  return fake as unknown as FakeStore;
}

function isWanted(
  { at, action, actor, subject, details }: AuditEntry,
  { projectId = subject, from = 0, to = Number.POSITIVE_INFINITY, ...wanted }: AuditFilter,
): boolean {
  const isOf = subject === projectId || details.project_id === projectId;
  const { action: wantedAction = action, actor: wantedActor = actor } = wanted;
  return isOf && at >= from && at < to && action === wantedAction && actor === wantedActor;
}
