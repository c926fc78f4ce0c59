import type { Clock } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import type { FirstProject } from '../../src/store/bootstrap.ts';
import type { Project } from '../../src/store/store.ts';
import { hashToken, makeId, makeToken, shownPrefix } from '../../src/store/token.ts';
import { keyOf } from './keys.ts';
import type { KeyRow } from './operations.ts';
import type { PlansConfig } from './plans.ts';
import { limitsOn } from './plans.ts';

/** An organization, a project and a key that may do everything, where the store has none yet. */
export async function ensureFirstProject(
  database: Database,
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
  const row = (await database.write('store.first', [
    project.organizationId,
    project.id,
    project.name,
    makeId('key'),
    hashToken(token),
    shownPrefix(token),
    now,
  ])) as KeyRow | null;
  return row === null ? undefined : { project, key: keyOf(row), token };
}
