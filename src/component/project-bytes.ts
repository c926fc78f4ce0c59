import { Refusal } from '../model/errors.ts';
import type { Clock } from './component.ts';
import { tokenBuckets } from './token-buckets.ts';

/** The project that took bytes longest ago is forgotten. */
const MAX_PROJECTS = 10_000;

/** Takes the bytes, or returns a refusal (429) if the project has taken too many of late. A single piece always fits, after a time. */
export type ProjectBytes = (projectId: string, bytes: number) => Refusal | undefined;

type ProjectBytesOptions = {
  /** Bytes of a project in this process: at once, and each second from then on. */
  readonly atOnce: number;
  readonly perSecond: number;
  /** The text of the refusal. */
  readonly message: string;
};

/** Bounds data that is stored for clients and that usage does not count: without a bound, one key fills the disk of all projects. */
export function projectBytes(
  { atOnce, perSecond, message }: ProjectBytesOptions,
  clock: Clock,
): ProjectBytes {
  const buckets = tokenBuckets({ perSecond, burst: atOnce, maxNames: MAX_PROJECTS }, clock);
  return (projectId, bytes) => {
    const wait = buckets.take(projectId, bytes);
    if (wait === 0) return undefined;
    return new Refusal('rate_limited', message, { retryAfterMs: Math.max(1000, Math.ceil(wait)) });
  };
}
