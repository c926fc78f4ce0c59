import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { windowAt } from '../../src/model/usage-window.ts';
import type { RebuildWatch } from '../../src/tenancy/rebuild-watch.ts';
import type { LedgerSums, SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import type { KeyName, RunScript } from './scripts.ts';
import { counterKeys, EPOCH, INSTALL, PRESENT } from './scripts.ts';

/** The epochs in force, by organization. An epoch is one build of the counters from the ledger. */
type Epochs = {
  /** Finds the counters in Redis or rebuilds them from the ledger. Rejects with `RetryableError`. */
  current(organizationId: string): Promise<number>;
  /** As `current`, by a look at Redis: counters that no request asked for since may be lost. */
  renew(organizationId: string): Promise<number>;
  /** Takes note that the counters of this epoch were lost or replaced. */
  expire(organizationId: string, epoch: number): void;
  /** The organizations that `current` was called for. */
  readonly organizations: () => Iterable<string>;
};

/**
 * One process rebuilds the counters of an organization at most once in this time, because every rebuild makes the
 * open transactions of the previous epoch fail.
 */
const REBUILD_MS = 1_000;
const LINGER_S = 2 * 24 * 3600;
/** Reads of Redis, one after another, while another replica rebuilds the counters. */
const MAX_READS = 100;

export function epochs(options: {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watch: RebuildWatch;
}): Epochs {
  const { run, key, ledger, clock, logger, watch } = options;
  const rebuiltAt = new Map<string, number>();

  async function findOrRebuild(organizationId: string): Promise<number> {
    return (await installed(organizationId)) ?? rebuild(organizationId);
  }

  async function installed(organizationId: string): Promise<number | undefined> {
    const { state } = counterKeys(key, organizationId, windowAt(clock.now()));
    const found = (await run(EPOCH, [state], [])) as string | null;
    return found === null ? undefined : Number(found);
  }

  /** The time, but not after that of Redis, so that `RESERVE` trusts the hour of the counters. */
  async function notAhead(organizationId: string, now: number): Promise<number> {
    const { state } = counterKeys(key, organizationId, windowAt(now));
    const present = Number(await run(PRESENT, [state], [])) * 1000;
    return Math.min(now, present);
  }

  async function rebuild(organizationId: string): Promise<number> {
    const now = clock.now();
    if (Math.abs(now - (rebuiltAt.get(organizationId) ?? Number.NEGATIVE_INFINITY)) < REBUILD_MS) {
      throw new RetryableError(
        'quota_counters',
        'The quota counters were lost. Retry the request.',
      );
    }
    rebuiltAt.set(organizationId, now);
    return watch.attempt(() => rebuildNow(organizationId, now));
  }

  async function rebuildNow(organizationId: string, now: number): Promise<number> {
    // In this order: counters that are installed after the second read belong to an epoch that began after the first.
    const newest = await ledger.newestEpoch(organizationId);
    const read = (): Promise<number | undefined> => installed(organizationId);
    const found = newest === 0 ? await read() : await installedByOther(read);
    if (found !== undefined) return found;
    const sums = await ledger.beginEpoch(
      organizationId,
      await notAhead(organizationId, now),
      newest,
    );
    if (sums === undefined) return (await installedByOther(read)) ?? refuseDuringRebuild();
    const epoch = await install(run, key, organizationId, sums);
    logger.info(
      { organization: organizationId, epoch, projects: sums.projects.length },
      'Quota counters rebuilt from the ledger',
    );
    return epoch;
  }

  return remembered(findOrRebuild);
}

/** Remembers what `look` found. */
function remembered(look: (organizationId: string) => Promise<number>): Epochs {
  const inForce = new Map<string, Promise<number>>();
  /** The organizations whose promise of `inForce` is pending. */
  const looking = new Set<string>();
  const known = new Set<string>();

  async function find(organizationId: string): Promise<number> {
    try {
      return await look(organizationId);
    } catch (error) {
      // Concurrent callers share the failure; the next caller retries.
      inForce.delete(organizationId);
      throw error;
    } finally {
      looking.delete(organizationId);
    }
  }

  function renew(organizationId: string): Promise<number> {
    const found = inForce.get(organizationId);
    // A second look beside a rebuild finds no counters, and fails because the rebuild has just begun.
    if (found !== undefined && looking.has(organizationId)) return found;
    known.add(organizationId);
    looking.add(organizationId);
    const asked = find(organizationId);
    inForce.set(organizationId, asked);
    return asked;
  }

  return {
    current: (organizationId) => inForce.get(organizationId) ?? renew(organizationId),
    renew,
    expire(organizationId, epoch) {
      const found = inForce.get(organizationId);
      // A concurrent caller may have found the next epoch already.
      void found?.then(
        (current) => {
          if (current === epoch && inForce.get(organizationId) === found) {
            inForce.delete(organizationId);
          }
        },
        () => {},
      );
    },
    organizations: () => known,
  };
}

/**
 * Waits for the counters of an epoch that another replica began and has not installed yet. A further epoch would void
 * the reservations of that replica. Undefined if they do not come: they were lost, or the replica died.
 */
async function installedByOther(
  read: () => Promise<number | undefined>,
): Promise<number | undefined> {
  for (let reads = 0; reads < MAX_READS; reads++) {
    const found = await read();
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A caller after `REBUILD_MS` begins the next epoch. */
function refuseDuringRebuild(): never {
  throw new RetryableError(
    'quota_counters',
    'The quota counters are being rebuilt. Retry the request.',
  );
}

async function install(
  run: RunScript,
  key: KeyName,
  organizationId: string,
  { epoch, at, projects }: LedgerSums,
): Promise<number> {
  const window = windowAt(at);
  const { state, month, hour, leases, reserved } = counterKeys(key, organizationId, window);
  const events = projects.reduce((sum, project) => sum + project.events, 0);
  const bytes = projects.reduce((sum, project) => sum + project.bytes, 0);
  const answer = await run(
    INSTALL,
    [state, month, hour, leases, reserved],
    [
      epoch,
      window.hour,
      window.month,
      Math.ceil(window.monthEnd / 1000) + LINGER_S,
      Math.ceil(window.hourEnd / 1000) + LINGER_S,
      ...['o', events, bytes],
      ...projects.flatMap((project) => [project.projectId, project.events, project.bytes]),
    ],
  );
  return Number(answer);
}
