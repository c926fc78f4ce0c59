import type { Tenant } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';

export type PlaceBounds = {
  /** The name of the requests, for the refusal. */
  readonly what: string;
  /** Places of one key, of one project, and of all. */
  readonly key: number;
  readonly project: number;
  readonly all: number;
  /** Milliseconds after which a refused client is asked to try again. */
  readonly retryMs: number;
};

/** A bound on the requests in progress of a key, of a project, and of all. */
export type ReadPlaces = {
  /** Throws a `Refusal`: 429 for the bounds of a key and a project, 503 for that of all. Returns the function that gives the place back. */
  take(tenant: Pick<Tenant, 'keyId' | 'projectId'>): () => void;
  readonly taken: number;
};

/** The places that one project may take if no setting says so: all but an eighth, so that one is left for others. */
export function projectShare(all: number): number {
  return Math.max(1, all - Math.ceil(all / 8));
}

export function createPlaces({ what, key, project, all, retryMs }: PlaceBounds): ReadPlaces {
  /** Places taken by owner; owners without a place are not in it. */
  const ofKeys = new Map<string, number>();
  const ofProjects = new Map<string, number>();
  const retry = { retryAfterMs: retryMs };
  let taken = 0;

  function assertBelow(owner: string, own: number, most: number): void {
    if (own < most) return;
    throw new Refusal('rate_limited', `This ${owner} has ${most} ${what}. Try again.`, retry);
  }

  return {
    get taken() {
      return taken;
    },
    take({ keyId, projectId }) {
      assertBelow('key', ofKeys.get(keyId) ?? 0, key);
      assertBelow('project', ofProjects.get(projectId) ?? 0, project);
      if (taken >= all) {
        throw new Refusal('unavailable', `There are ${all} ${what}. Try again.`, retry);
      }
      add(ofKeys, keyId, 1);
      add(ofProjects, projectId, 1);
      taken++;
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        add(ofKeys, keyId, -1);
        add(ofProjects, projectId, -1);
        taken--;
      };
    },
  };
}

function add(counts: Map<string, number>, owner: string, change: number): void {
  const count = (counts.get(owner) ?? 0) + change;
  if (count > 0) counts.set(owner, count);
  else counts.delete(owner);
}
