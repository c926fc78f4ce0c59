import type { Clock } from '../component/component.ts';
import type { FirstProject } from './bootstrap.ts';
import type { Project } from './contract.ts';
import { keyOf } from './keys.ts';
import type { PlansConfig } from './plans.ts';
import { limitsOn } from './plans.ts';
import type { TenancyRows } from './rows.ts';
import { hashToken, makeId, makeToken, shownPrefix } from './token.ts';

/** Creates an organization, a project and a key with all permissions, if the store has none. */
export async function ensureFirstProject(
  rows: TenancyRows,
  clock: Clock,
  config: PlansConfig,
): Promise<FirstProject | undefined> {
  const token = makeToken();
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
  return row === null ? undefined : { project, key: keyOf(row), token };
}
