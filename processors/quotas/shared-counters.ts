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
import { rebuildWatch } from '../../src/tenancy/rebuild-watch.ts';
import type { SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import { epochs } from './epochs.ts';
import { callsByName } from './grouping.ts';
import type { KeyName, RunScript } from './scripts.ts';
import { counterKeys, READ, RESERVE } from './scripts.ts';
import { Settlements } from './settlements.ts';

/**
 * Counters in Redis that replicas share, a cache of the ledger of their store:
 *
 *   reserve ─▶ one script for the requests of one moment: counters of this epoch? room in every window? ─▶ counted, with a lease
 *   settle  ─▶ settlements.ts: confirmed, or cancelled after the ledger reports that it lacks the batch
 *   counters lost (restart, failover, FLUSHALL) ─▶ epochs.ts: a new epoch, rebuilt from the ledger
 *
 * If Redis or the ledger cannot be reached the request is refused (503).
 */
export type SharedCounters = UsageCounters & {
  /** Whether requests have been refused for some time because lost counters are not rebuilt yet. */
  isRebuilding(): boolean;
  close(): Promise<void>;
};

type SharedCountersOptions = {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
};

/**
 * How long a reservation waits for its settlement. It is longer than the rest of any request, so that other replicas
 * decide only the reservations of dead processes.
 */
const LEASE_MS = 60_000;
/** How long the counters of a window outlive it, for late cancellations. */
const LINGER_MS = 2 * 24 * 3_600_000;
/** Attempts of one reservation. Lost counters and a new hour cost one attempt each. */
const MAX_ATTEMPTS = 4;
/** Requests of one script. */
const MAX_RESERVED = 256;
/** The scope of an organization's own sums; the scope of a project is its id. */
const ORGANIZATION = 'o';

export function sharedCounters(options: SharedCountersOptions): SharedCounters {
  const { run, key, clock } = options;
  const watch = rebuildWatch(clock, options.logger);
  const known = epochs({ ...options, watch });
  const { organizations, renew } = known;
  const settlements = new Settlements({ ...options, organizations, renew });

  /** Requests of one organization, epoch and window share a script. */
  const reserveTogether = callsByName<Asked, string[]>(MAX_RESERVED, async (_name, calls) => {
    const [first] = calls;
    if (first === undefined) return [];
    const { organizationId } = first.asked.tenant;
    const { state, month, hour, leases, reserved } = counterKeys(key, organizationId, first.window);
    const keys = [state, month, hour, leases, reserved];
    const of = calls.flatMap(({ asked, limits }) => reserveArguments(asked, limits));
    const answer = (await run(RESERVE, keys, [...windowArguments(first), ...of])) as string[];
    const [outcome, ...verdicts] = answer;
    return outcome === 'all'
      ? verdicts.map((verdict) => verdict.split(' '))
      : calls.map(() => answer);
  });

  async function ask(asked: Reservation, limits: QuotaLimits): Promise<QuotaVerdict> {
    const { organizationId } = asked.tenant;
    let { at } = asked;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const epoch = await known.current(organizationId);
      const window = windowAt(at);
      const name = [organizationId, epoch, window.month, window.hour].join(' ');
      const [answer, detail] = await reserveTogether(name, { asked, limits, epoch, window });
      if (answer === 'ok') return { admitted: true, at, epoch };
      if (answer === 'epoch') known.expire(organizationId, epoch);
      // A clock that goes back does not reopen a window, and one that is far ahead opens none.
      else if (answer === 'moved') at = Number(detail) * HOUR_MS;
      else return refused(answer === 'month' ? 'monthly_limit' : 'hourly_limit', detail, window);
    }
    throw rebuilding();
  }

  return {
    peek: (tenant, limits, at) =>
      // A window is exhausted if it has no room for one event and one byte.
      ask({ batchId: '', tenant, usage: { events: 1, bytes: 1 }, at }, limits),
    async reserve(reservation, limits) {
      const { usage, at } = reservation;
      for (const { scope, most } of hourlyLimits(limits)) {
        if (most !== null && usage.bytes > most) {
          return refused('exceeds_hourly_limit', scope, windowAt(at));
        }
      }
      if (settlements.isFull) throw unsettled();
      const verdict = await ask(reservation, limits);
      if (verdict.admitted) settlements.expect(reservation.batchId, verdict);
      return verdict;
    },
    settle: (reservation, isDurable, isEntered = false) =>
      settlements.settle(reservation, isDurable, isEntered),
    async read(organizationId, projectId = ORGANIZATION) {
      const window = windowAt(clock.now());
      const { state, month, hour } = counterKeys(key, organizationId, window);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const epoch = await known.current(organizationId);
        const answer = (await run(READ, [state, month, hour], [epoch, projectId])) as string[];
        const [outcome, events, bytes] = answer;
        if (outcome === 'ok') {
          return {
            month: { events: Number(events), resetsAt: window.monthEnd },
            hour: { bytes: Number(bytes), resetsAt: window.hourEnd },
          };
        }
        known.expire(organizationId, epoch);
      }
      throw rebuilding();
    },
    isRebuilding: watch.isLate,
    async close() {
      watch.close();
      await settlements.close();
    },
  };
}

function rebuilding(): RetryableError {
  return new RetryableError(
    'quota_counters',
    'The quota counters are being rebuilt. Retry the request.',
  );
}

function unsettled(): RetryableError {
  return new RetryableError(
    'quota_counters',
    'The usage of earlier requests waits for the store. Retry the request.',
  );
}

type Asked = {
  readonly asked: Reservation;
  readonly limits: QuotaLimits;
  readonly epoch: number;
  readonly window: Window;
};

function windowArguments({ epoch, window }: Pick<Asked, 'epoch' | 'window'>): number[] {
  return [
    epoch,
    window.hour,
    window.month,
    Math.ceil((window.monthEnd + LINGER_MS) / 1000),
    Math.ceil((window.hourEnd + LINGER_MS) / 1000),
    LEASE_MS,
  ];
}

function reserveArguments(
  { batchId, tenant, usage }: Reservation,
  { eventsPerMonth, bytesPerHour, project }: QuotaLimits,
): (string | number)[] {
  return [
    batchId,
    tenant.projectId,
    usage.events,
    usage.bytes,
    eventsPerMonth ?? -1,
    bytesPerHour ?? -1,
    project?.eventsPerMonth ?? -1,
    project?.bytesPerHour ?? -1,
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
