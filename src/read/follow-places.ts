import type { Tenant } from '../model/batch.ts';
import { boundedPlaces } from './waiting.ts';

/** The limits of streams, from `service.limits`. */
export type StreamLimits = {
  /** Streams of a key, of a project, and of all, at once. */
  readonly streams_per_key: number;
  readonly streams_per_project: number;
  readonly streams: number;
};

export type FollowPlaces = {
  /** Throws a `Refusal` (429, 503). Returns the function that gives the place back. */
  take(tenant: Pick<Tenant, 'keyId' | 'projectId'>): () => void;
  readonly taken: number;
};

export function followPlaces(limits: StreamLimits): FollowPlaces {
  const what = 'streams of traces';
  const all = limits.streams;
  const ofKeys = boundedPlaces({ what, owner: 'key', each: limits.streams_per_key, all });
  const each = limits.streams_per_project;
  const ofProjects = boundedPlaces({ what, owner: 'project', each, all });
  return {
    get taken() {
      return ofKeys.taken;
    },
    take({ keyId, projectId }) {
      const leaveProject = ofProjects.take(projectId);
      try {
        const leaveKey = ofKeys.take(keyId);
        return () => {
          leaveKey();
          leaveProject();
        };
      } catch (error) {
        leaveProject();
        throw error;
      }
    },
  };
}
