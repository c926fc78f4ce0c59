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
  /**
   * Throws a `Refusal`: 429 for the bounds of a key and a project, 503 for that of all. Returns the function that gives the place back.
   *
   * `giveWay` is called at most once, when all places are taken, and a project with fewer than its share (all, divided by the projects with
   * places) wants one of a project with more: the request has to end soon, and its place is the other one's at once.
   */
  take(tenant: Pick<Tenant, 'keyId' | 'projectId'>, giveWay?: () => void): () => void;
  /** With the places of requests that give way and have not ended. */
  readonly taken: number;
};

/** The places that one project may take if no setting says so: all but an eighth, so that one is left for others. */
export function projectShare(all: number): number {
  return Math.max(1, all - Math.ceil(all / 8));
}

type Holder = { readonly projectId: string; readonly giveWay: (() => void) | undefined };

export function createPlaces({ what, key, project, all, retryMs }: PlaceBounds): ReadPlaces {
  /** Places taken by owner; owners without a place are not in it. */
  const ofKeys = new Map<string, number>();
  const ofProjects = new Map<string, number>();
  const retry = { retryAfterMs: retryMs };
  /** Those that were not asked to give way, in the order of their begin. */
  const holders = new Set<Holder>();
  let taken = 0;

  function assertBelow(owner: string, own: number, most: number): void {
    if (own < most) return;
    throw new Refusal('rate_limited', `This ${owner} has ${most} ${what}. Try again.`, retry);
  }

  /** Of the project with the most places, the request that began last gives way: it has the least to repeat. */
  function replaceAboveShare(projectId: string): boolean {
    const held = Map.groupBy(holders, (holder) => holder.projectId);
    const own = held.get(projectId)?.length ?? 0;
    const share = Math.max(1, Math.floor(all / (held.size + (own === 0 ? 1 : 0))));
    if (own >= share) return false;
    const above = [...held.values()].filter(({ length }) => length > share);
    for (const each of above.sort((a, b) => b.length - a.length)) {
      const last = each.findLast(({ giveWay }) => giveWay !== undefined);
      if (last === undefined) continue;
      holders.delete(last);
      last.giveWay?.();
      return true;
    }
    return false;
  }

  return {
    get taken() {
      return taken;
    },
    take({ keyId, projectId }, giveWay) {
      assertBelow('key', ofKeys.get(keyId) ?? 0, key);
      assertBelow('project', ofProjects.get(projectId) ?? 0, project);
      if (holders.size >= all && !replaceAboveShare(projectId)) {
        throw new Refusal('unavailable', `There are ${all} ${what}. Try again.`, retry);
      }
      const holder = { projectId, giveWay };
      holders.add(holder);
      add(ofKeys, keyId, 1);
      add(ofProjects, projectId, 1);
      taken++;
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        holders.delete(holder);
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
