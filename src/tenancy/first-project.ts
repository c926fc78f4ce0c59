import type { Clock } from '../component/component.ts';
import type { FirstTokens } from '../component/first-tokens.ts';
import type { FirstProject } from './bootstrap.ts';
import type { Project } from './contract.ts';
import { keyOf } from './keys.ts';
import type { PlansConfig } from './plans.ts';
import { limitsOn } from './plans.ts';
import type { Projects } from './projects.ts';
import type { TenancyRows } from './rows.ts';
import { hashToken, makeId, makeToken, shownPrefix } from './token.ts';

/** Creates an organization, a project and a key with all permissions, if the store has none. */
export async function ensureFirstProject(
  rows: TenancyRows,
  clock: Clock,
  config: PlansConfig,
  tokens: FirstTokens,
): Promise<FirstProject | undefined> {
  if ((await rows.projects()).length > 0) return undefined;
  const token = makeToken();
  await tokens.keep(token);
  const now = clock.now();
  const project: Project = {
    id: makeId('proj'),
    organizationId: makeId('org'),
    name: 'default',
    retainedTraces: 0,
    retention: { days: limitsOn('scale', config).retentionDays },
    limits: { eventsPerMonth: null, bytesPerHour: null },
    createdAt: now,
  };
  const row = await rows.first({
    organizationId: project.organizationId,
    projectId: project.id,
    name: project.name,
    keyId: makeId('key'),
    hash: hashToken(token),
    prefix: shownPrefix(token),
    now,
  });
  if (row !== null) return { project, key: keyOf(row), token, isRecovered: false };
  // Another process created the store at the same moment.
  await tokens.forget(token);
  return undefined;
}

/** The first key of a start that ended before a user had seen its token. */
export async function recoverFirstProject(
  rows: TenancyRows,
  projects: Projects,
  tokens: FirstTokens,
): Promise<FirstProject | undefined> {
  for (const token of await tokens.kept()) {
    const row = await rows.keyByHash(hashToken(token));
    if (row === null || row.revokedAt !== null) continue;
    const project = await projects.get(row.project);
    if (project !== undefined) return { project, key: keyOf(row), token, isRecovered: true };
  }
  return undefined;
}
