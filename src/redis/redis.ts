import type { Cluster, Redis } from 'ioredis';
import { capability } from '../component/capability.ts';

/** A client of one server, of what Sentinels name, or of a Cluster. */
export type RedisClient = Redis | Cluster;

/**
 * A connection to Redis that components share. Nothing hangs on it: every command succeeds, or fails
 * within the command time-out, also while Redis is away, slow or silent. It reconnects by itself.
 */
export type RedisConnection = {
  /** Begins every key, with a hash tag, so that all keys are in one slot of a Cluster: `{tracectl}`. */
  readonly prefix: string;
  /** `{tracectl}:<part>:<part>` */
  key(...parts: readonly string[]): string;
  /**
   * Runs commands. Rejects with `RetryableError`: `redis_full` (at its `maxmemory`), `redis_failed`
   * (everything else). A command that failed for its time-out may have been carried out.
   */
  run<T>(work: (client: RedisClient) => Promise<T>): Promise<T>;
  /** A Lua script, sent once and called by its hash after that. */
  script(lua: string): RedisScript;
  /** The client behind `run`, for libraries that take one. Its owner is the extension. */
  readonly client: RedisClient;
  /**
   * A client of its own, for commands that block: its commands wait for Redis as long as it is away.
   * The caller closes it.
   */
  duplicate(): RedisClient;
  /**
   * Listens to a channel, named as `key` names it, over a connection that all listeners share. Messages
   * are lost while Redis is away. Returns a function that ends it.
   */
  subscribe(channel: string, listener: (message: string) => void): () => void;
  state(): RedisState;
  /** Told when the state changes. */
  onState(listener: (state: RedisState) => void): () => void;
};

export type RedisScript = {
  /** `keys` are whole keys, see `key`. Rejects as `run` does. */
  run(keys: readonly string[], args: readonly (string | number | Buffer)[]): Promise<unknown>;
};

export type RedisState = {
  readonly connected: boolean;
  /** What it said lately to those who write, in a sentence; undefined where it takes what it is given. */
  readonly refuses: string | undefined;
  /** Why the last try to connect failed; undefined while it stands, or nothing is known. */
  readonly reason: string | undefined;
  /** What Redis drops when its memory is full; looked at every 30 s. Undefined while it is not known. */
  readonly maxmemoryPolicy: string | undefined;
  /** Whether it keeps an append-only file. */
  readonly appendOnly: boolean | undefined;
};

/** Offered by extensions that are a connection to Redis. */
export const REDIS = capability<RedisConnection>('redis');
