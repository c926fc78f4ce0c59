import type { Test } from 'tap';
import { deleting } from './deleting.ts';
import { logs } from './logs.ts';
import { projectLimits, projectsAndPlans } from './plans-of-projects.ts';
import { retention } from './retention.ts';
import type { TenancyPlace } from './tenancy-place.ts';
import { openingTenancy } from './tenancy-place.ts';
import { uiSessions } from './ui-sessions.ts';
import { usage } from './usage.ts';

/** The rules for the service around the pipeline: projects, plans, retention, usage, logs. */
export function tenancyContract(t: Test, place: (t: Test) => Promise<TenancyPlace>): void {
  const open = openingTenancy(place);
  for (const [name, rules] of Object.entries({
    'projects and plans': projectsAndPlans,
    'limits of projects, and of plans': projectLimits,
    'deleting a project': deleting,
    retention,
    usage,
    'what was refused, and who did what': logs,
    'sessions of the web UI': uiSessions,
  })) {
    t.test(name, (t) => {
      rules(t, open);
      t.end();
    });
  }
}
