import { Refusal } from '../model/errors.ts';

/** The part of the budget that one reading request holds. */
export type ReadReservation = {
  /** Bytes. */
  readonly held: number;
  /** Throws a `Refusal` (503) if there is no room; the bytes already held stay reserved. */
  grow(bytes: number): void;
  release(): void;
};

/** Bounds the memory of all reading requests together. It is apart from the budget of ingestion. */
export type ReadBudget = {
  readonly held: number;
  /** An empty reservation, which grows. */
  reserve(projectId: string): ReadReservation;
};

/** A project holds at most seven eighths of the budget, so that another project's narrow read always has room. */
const SHARE = 7 / 8;

/** `limit` is `service.limits.read_bytes`. */
export function readBudget(limit: number): ReadBudget {
  const share = Math.floor(limit * SHARE);
  const heldBy = new Map<string, number>();
  let total = 0;

  function take(projectId: string, bytes: number): void {
    const held = (heldBy.get(projectId) ?? 0) + bytes;
    if (held > share || total + bytes > limit) {
      throw new Refusal('unavailable', 'Too much data is being read. Try again.', {
        retryAfterMs: 1000,
      });
    }
    heldBy.set(projectId, held);
    total += bytes;
  }

  function giveBack(projectId: string, bytes: number): void {
    const left = (heldBy.get(projectId) ?? 0) - bytes;
    if (left > 0) heldBy.set(projectId, left);
    else heldBy.delete(projectId);
    total -= bytes;
  }

  return {
    get held() {
      return total;
    },
    reserve(projectId) {
      let held = 0;
      return {
        get held() {
          return held;
        },
        grow(bytes) {
          take(projectId, bytes);
          held += bytes;
        },
        release() {
          giveBack(projectId, held);
          held = 0;
        },
      };
    },
  };
}
