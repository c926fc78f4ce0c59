import type { Settings } from '../component/component.ts';
import type { FirstTokens } from '../component/first-tokens.ts';
import { NO_TOKENS } from '../component/first-tokens.ts';
import { auditStore } from './audit.ts';
import type { FirstProject } from './bootstrap.ts';
import type { AuditStore, UsageStore } from './contract.ts';
import { ensureFirstProject, recoverFirstProject } from './first-project.ts';
import type { Keys } from './keys.ts';
import { keyStore } from './keys.ts';
import type { OrganizationOfRows } from './organization.ts';
import { organizationOf, organizationStore } from './organization.ts';
import type { PlansConfig } from './plans.ts';
import type { Projects } from './projects.ts';
import { projectStore } from './projects.ts';
import type { Rejections, RejectionsConfig } from './rejections.ts';
import { rejectionStore } from './rejections.ts';
import { Retention } from './retention.ts';
import type { TenancyRows, VerifyProgress } from './rows.ts';
import type { Difference } from './usage.ts';
import { usageStore } from './usage.ts';

export type TenancyConfig = PlansConfig & { readonly rejections: RejectionsConfig };

/** The tenancy parts of a store, on the rows of one database. */
export type Tenancy = {
  /** The first project and key, if no user has seen the token yet. */
  readonly first: FirstProject | undefined;
  readonly retention: Retention;
  readonly projects: Projects;
  readonly keys: Keys;
  readonly organization: OrganizationOfRows;
  readonly usage: UsageStore;
  readonly rejections: Rejections;
  readonly audit: AuditStore;
  /** Writes the buffered rows, before the database is closed. */
  close(): Promise<void>;
  crash(): void;
};

export type TenancySettings = Pick<Settings, 'clock' | 'logger'> & {
  /** By default, no token is kept. */
  readonly firstTokens?: FirstTokens;
};

export async function openTenancy(
  rows: TenancyRows,
  { clock, logger, firstTokens = NO_TOKENS }: TenancySettings,
  config: TenancyConfig,
  verifyCounters: (progress: VerifyProgress) => Promise<Difference[]>,
): Promise<Tenancy> {
  const created = await ensureFirstProject(rows, clock, config, firstTokens);
  const retention = new Retention(clock);
  retention.onPlan(organizationOf(await rows.organization(), config).limits);
  for (const { id, retentionDays } of await rows.projects()) retention.setOwn(id, retentionDays);
  for (const id of await rows.openRemovals()) retention.markDeleted(id);
  const keys = keyStore(rows, clock, logger);
  const projects = projectStore({ rows, clock, config, retention });
  const rejections = rejectionStore(rows, clock, logger, config.rejections);
  projects.onDelete(() => keys.changed(undefined));
  return {
    first: created ?? (await recoverFirstProject(rows, projects, firstTokens)),
    retention,
    projects,
    keys,
    organization: organizationStore(rows, clock, config, retention),
    usage: usageStore(rows, verifyCounters, rejections.flush),
    rejections,
    audit: auditStore(rows),
    async close() {
      await keys.close();
      await rejections.close();
    },
    crash: () => rejections.crash(),
  };
}
