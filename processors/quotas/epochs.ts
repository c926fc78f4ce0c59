import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { windowAt } from '../../src/model/usage-window.ts';
import type { LedgerSums, SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import type { KeyName } from './counter-keys.ts';
import { counterKeys } from './counter-keys.ts';
import type { RunScript } from './scripts.ts';
import { EPOCH, INSTALL } from './scripts.ts';

/** The counters in force, by organization. */
export type Epochs = {
  /** Finds them, or sums them up from the ledger. Rejects with `RetryableError`. */
  current(organizationId: string): Promise<number>;
  /** They were lost, or somebody began newer ones. */
  isOver(organizationId: string, epoch: number): void;
  /** Those that were asked for. */
  readonly organizations: () => Iterable<string>;
};

/**
 * Every sum over the ledger makes the transactions of the epoch before fail, so it is not made more often
 * than this by one process, whatever Redis does.
 */
const REBUILD_MS = 1_000;
const LINGER_S = 2 * 24 * 3600;
/** How often Redis is asked, one round trip after another, for counters that another replica builds up. */
const LOOKS = 100;

export function epochs(options: {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
}): Epochs {
  const { run, key, ledger, clock, logger } = options;
  const inForce = new Map<string, Promise<number>>();
  const known = new Set<string>();
  const rebuiltAt = new Map<string, number>();

  async function find(organizationId: string): Promise<number> {
    return (await installed(organizationId)) ?? rebuild(organizationId);
  }

  async function installed(organizationId: string): Promise<number | undefined> {
    const { state } = counterKeys(key, organizationId, windowAt(clock.now()));
    const found = (await run(EPOCH, [state], [])) as string | null;
    return found === null ? undefined : Number(found);
  }

  async function rebuild(organizationId: string): Promise<number> {
    const now = clock.now();
    if (Math.abs(now - (rebuiltAt.get(organizationId) ?? Number.NEGATIVE_INFINITY)) < REBUILD_MS) {
      throw new RetryableError(
        'quota_counters',
        'The quota counters were lost just now. Try again.',
      );
    }
    rebuiltAt.set(organizationId, now);
    // In this order: whoever installs counters after the second look began their epoch after the first.
    const newest = await ledger.newestEpoch(organizationId);
    const found = await installed(organizationId);
    if (found !== undefined) return found;
    const sums = await ledger.beginEpoch(organizationId, now, newest);
    if (sums === undefined) return installedByOther(() => installed(organizationId));
    const epoch = await install(run, key, organizationId, sums);
    logger.info(
      { organization: organizationId, epoch, projects: sums.projects.length },
      'the quota counters were built up from the ledger',
    );
    return epoch;
  }

  return {
    current(organizationId) {
      const found = inForce.get(organizationId);
      if (found !== undefined) return found;
      known.add(organizationId);
      const asked = find(organizationId);
      inForce.set(organizationId, asked);
      // A failure is everybody's who asked meanwhile; the next one tries again.
      asked.catch(() => inForce.delete(organizationId));
      return asked;
    },
    isOver(organizationId, epoch) {
      const found = inForce.get(organizationId);
      // Others may have found the next one by now.
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
 * Another replica sums them up at this moment. One more epoch would refuse what is reserved in its. Should
 * it die over it, whoever asks after `REBUILD_MS` begins the next.
 */
async function installedByOther(look: () => Promise<number | undefined>): Promise<number> {
  for (let looks = 0; looks < LOOKS; looks++) {
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new RetryableError('quota_counters', 'The quota counters are being built up. Try again.');
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
