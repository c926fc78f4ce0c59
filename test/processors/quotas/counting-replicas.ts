import type { Test } from 'tap';
import type { RedisSettings } from '../../../extensions/redis/connection.ts';
import { openRedis } from '../../../extensions/redis/connection.ts';
import { scriptRunner } from '../../../processors/quotas/scripts.ts';
import type { SharedCounters } from '../../../processors/quotas/shared-counters.ts';
import { sharedCounters } from '../../../processors/quotas/shared-counters.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { ulid } from '../../../src/model/ulid.ts';
import type { QuotaLimits, QuotaVerdict, Reservation } from '../../../src/tenancy/contract.ts';
import { aTenant } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import type { MemoryLedger } from '../../helper/shared-ledger.ts';

export const HOUR = 3_600_000;
/** The middle of the current hour: windows in Redis expire by its own clock. */
export const NOW = Math.floor(Date.now() / HOUR) * HOUR + HOUR / 2;
/** A clock that is this far ahead is in another year. */
export const AHEAD = 400 * 24 * HOUR;
export const UNLIMITED: QuotaLimits = { eventsPerMonth: null, bytesPerHour: null };

/** A Redis, and replicas that count in it, each with a connection of its own. */
export async function countingReplicas(t: Test) {
  const server = await redisServer(t, ['--appendonly', 'yes']);

  /** All replicas share the ledger. */
  async function replica(t: Test, ledger: MemoryLedger, where: Partial<RedisSettings> = {}) {
    const clock = fakeClock(NOW);
    const redis = await openRedis({
      ...{ url: server.url, keyPrefix: 'test', commandTimeout: 1000, cluster: false },
      ...{ tls: undefined, sentinel: undefined, clock: systemClock, logger: recordingLogger() },
      ...where,
    });
    const run = scriptRunner(redis);
    const key = (owner: string, name: string) => redis.key('quotas', owner, name);
    const counters = sharedCounters({ run, key, ledger, clock, logger: recordingLogger() });
    t.teardown(async () => {
      await counters.close();
      await redis.close();
    });
    return { counters, clock, run, key };
  }

  return { server, replica };
}

let organizations = 0;
export const newOrganization = () => `org_${++organizations}`;

export function reservation(
  organizationId: string,
  events: number,
  more: Partial<Reservation> = {},
) {
  const tenant = aTenant({ organizationId });
  return { batchId: ulid(NOW), tenant, usage: { events, bytes: events * 10 }, at: NOW, ...more };
}

export const codeOf = (verdict: QuotaVerdict) => (verdict.admitted ? 'ok' : verdict.code);

/** Reserves, and makes an admitted batch durable with its ledger entry. Resolves with the code. */
export async function accept(
  counters: SharedCounters,
  ledger: MemoryLedger,
  asked: Reservation,
  limits: QuotaLimits,
) {
  const verdict = await counters.reserve(asked, limits);
  if (!verdict.admitted) return verdict.code;
  const isEntered = ledger.enter(asked, verdict.at, verdict.epoch ?? 0);
  counters.settle(asked, isEntered, isEntered);
  return isEntered ? 'ok' : 'refused by the ledger';
}

export const used = async ({ counters }: { counters: SharedCounters }, organization: string) =>
  (await counters.read(organization)).month.events;
