import type { Clock } from '../../src/component/component.ts';
import { LruCache } from '../../src/component/lru.ts';
import type { PayloadSubject } from '../../src/read/project-reads.ts';
import type { AuditStore, ChangedBy } from '../../src/tenancy/contract.ts';

/** Records who reads payloads through this API, in the audit log of the store. */
export type PayloadAudit = {
  /** Resolves when the read is in the log. Rejects if it cannot be recorded. */
  note(read: PayloadRead): Promise<void>;
};

type PayloadRead = {
  readonly by: ChangedBy;
  readonly projectId: string;
  readonly of: PayloadSubject;
};

/** An actor's further reads of the same trace within this time are not recorded again. */
const INTERVAL_MS = 60_000;
/** The reads that are remembered; an evicted one is recorded again. */
const MAX_READS = 10_000;

type Recorded = { readonly at: number; readonly done: Promise<void> };

export function payloadAudit(log: Pick<AuditStore, 'record'>, clock: Clock): PayloadAudit {
  const recent = new LruCache<string, Recorded>({ maxEntries: MAX_READS });
  return {
    note({ by, projectId, of }) {
      const key = JSON.stringify([by.actor, projectId, of.kind, of.id]);
      const now = clock.now();
      const known = recent.peek(key);
      if (known !== undefined && Math.abs(now - known.at) < INTERVAL_MS) return known.done;
      const action = 'payloads.read';
      const details = { [of.kind]: of.id };
      const done = log.record({ at: now, ...by, action, subject: projectId, details });
      const entry = { at: now, done };
      recent.set(key, entry);
      done.catch(() => {
        if (recent.peek(key) === entry) recent.delete(key);
      });
      return done;
    },
  };
}
