import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { Window } from '../../src/model/usage-window.ts';
import { HOUR_MS, windowAt } from '../../src/model/usage-window.ts';
import type {
  QuotaLimits,
  QuotaVerdict,
  Reservation,
  UsageCounters,
} from '../../src/tenancy/contract.ts';
import type { SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import type { KeyName } from './counter-keys.ts';
import { counterKeys } from './counter-keys.ts';
import { epochs } from './epochs.ts';
import type { RunScript } from './scripts.ts';
import { READ, RESERVE } from './scripts.ts';
import { SharedSettlements } from './settlements.ts';

/**
 * Counters in Redis that replicas share, over the ledger of their store:
 *
 *   reserve ─▶ one script: counters of this epoch? room in every window? ─▶ counted, with a lease
 *   settle  ─▶ settlements.ts: kept, or given back once the ledger says that it lacks the batch
 *   counters lost (restart, failover, FLUSHALL) ─▶ epochs.ts: a new epoch, summed up from the ledger
 *
 * Whatever cannot be asked refuses (503): nothing is admitted on a guess.
 */
export type SharedCounters = UsageCounters & { close(): Promise<void> };

export type SharedCountersOptions = {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
};

/**
 * How long a reservation waits for its settlement: longer than any request takes from here on, so that
 * others decide only about those of a dead process.
 */
const LEASE_MS = 60_000;
/** A window's counters outlive it, for what is given back late. */
const LINGER_MS = 2 * 24 * 3_600_000;
/** Lost counters, a new hour: each costs another round; more than this is no coincidence. */
const ROUNDS = 4;
/** The scope of the organization; a project's is its id. */
const ORGANIZATION = 'o';

export function sharedCounters(options: SharedCountersOptions): SharedCounters {
  const { run, key, clock } = options;
  const known = epochs(options);
  const { organizations } = known;
  const settlements = new SharedSettlements({ ...options, organizations });

  async function ask(asked: Reservation, limits: QuotaLimits): Promise<QuotaVerdict> {
    const { organizationId } = asked.tenant;
    let { at } = asked;
    for (let round = 0; round < ROUNDS; round++) {
      const epoch = await known.current(organizationId);
      const window = windowAt(at);
      const { state, month, hour, leases, reserved } = counterKeys(key, organizationId, window);
      const keys = [state, month, hour, leases, reserved];
      const [answer, detail] = (await run(
        RESERVE,
        keys,
        reserveArguments(epoch, window, asked, limits),
      )) as string[];
      if (answer === 'ok') return { admitted: true, at, epoch };
      if (answer === 'epoch') known.isOver(organizationId, epoch);
      // A clock that goes back does not open a window again: what comes then counts in the newest one.
      else if (answer === 'later') at = Number(detail) * HOUR_MS;
      else return refused(answer === 'month' ? 'monthly_limit' : 'hourly_limit', detail, window);
    }
    throw new RetryableError('quota_counters', 'The quota counters are being built up. Try again.');
  }

  return {
    peek: (tenant, limits, at) =>
      // Exhausted means that not one event, or one byte, more has room.
      ask({ batchId: '', tenant, usage: { events: 1, bytes: 1 }, at }, limits),
    async reserve(reservation, limits) {
      const { usage, at } = reservation;
      for (const { scope, most } of hourlyLimits(limits)) {
        if (most !== null && usage.bytes > most) {
          return refused('exceeds_hourly_limit', scope, windowAt(at));
        }
      }
      const verdict = await ask(reservation, limits);
      if (verdict.admitted) settlements.expect(reservation.batchId, verdict.at);
      return verdict;
    },
    settle: (reservation, isDurable, isEntered = false) =>
      settlements.settle(reservation, isDurable, isEntered),
    async read(organizationId, projectId = ORGANIZATION) {
      const window = windowAt(clock.now());
      const { state, month, hour } = counterKeys(key, organizationId, window);
      const [events, bytes] = (await run(READ, [state, month, hour], [projectId])) as string[];
      return {
        month: { events: Number(events), resetsAt: window.monthEnd },
        hour: { bytes: Number(bytes), resetsAt: window.hourEnd },
      };
    },
    close: () => settlements.close(),
  };
}

function reserveArguments(
  epoch: number,
  window: Window,
  { batchId, tenant, usage }: Reservation,
  { eventsPerMonth, bytesPerHour, project }: QuotaLimits,
): (string | number)[] {
  return [
    epoch,
    window.hour,
    window.month,
    Math.ceil((window.monthEnd + LINGER_MS) / 1000),
    Math.ceil((window.hourEnd + LINGER_MS) / 1000),
    tenant.projectId,
    usage.events,
    usage.bytes,
    eventsPerMonth ?? -1,
    bytesPerHour ?? -1,
    project?.eventsPerMonth ?? -1,
    project?.bytesPerHour ?? -1,
    batchId,
    LEASE_MS,
  ];
}

function hourlyLimits({ bytesPerHour, project }: QuotaLimits) {
  return [
    { scope: ORGANIZATION, most: bytesPerHour },
    { scope: 'p', most: project?.bytesPerHour ?? null },
  ];
}

function refused(
  code: Extract<QuotaVerdict, { admitted: false }>['code'],
  scope: string | undefined,
  { monthEnd, hourEnd }: Window,
): QuotaVerdict {
  const resetsAt = code === 'monthly_limit' ? monthEnd : hourEnd;
  return { admitted: false, code, ...(scope === 'p' ? { scope: 'project' } : {}), resetsAt };
}
