import type { Cluster, Redis } from 'ioredis';
import { capability } from '../component/capability.ts';

/** A client of one server, of the primary that Sentinels name, or of a Cluster. */
export type RedisClient = Redis | Cluster;

/**
 * A connection to Redis that components share. Every command succeeds or fails within the command time-out, even if
 * Redis is away, slow or silent. The connection reconnects on its own.
 */
export type RedisConnection = {
  /** The hash tag that begins every key, so that one slot of a Cluster holds all keys: `{tracectl}`. */
  readonly prefix: string;
  /** `{tracectl}:<part>:<part>` */
  key(...parts: readonly string[]): string;
  /**
   * Runs commands. Rejects with `RetryableError`: `redis_full` (at its `maxmemory`) or `redis_failed` (any other
   * error). A command that timed out may have been executed.
   */
  run<T>(work: (client: RedisClient) => Promise<T>): Promise<T>;
  /** A Lua script, sent to Redis once and then called by its hash. */
  script(lua: string): RedisScript;
  /** The client behind `run`, for libraries that need one. The extension closes it. */
  readonly client: RedisClient;
  /** A new client for blocking commands, which wait while Redis is away. The caller closes it. */
  duplicate(): RedisClient;
  /**
   * Subscribes to the channel `key(channel)`, over a connection that all listeners share. Messages are lost while
   * Redis is away. Returns a function that unsubscribes.
   */
  subscribe(channel: string, listener: (message: string) => void): () => void;
  /** Takes note of the error of a command on a `duplicate`, as `run` does of its own, or of its connection. */
  failed(error: unknown): void;
  state(): RedisState;
  /** The listener is called when the state changes. */
  onState(listener: (state: RedisState) => void): () => void;
};

export type RedisScript = {
  /** `keys` are complete keys, as `key` returns them. Rejects as `run` does. */
  run(keys: readonly string[], args: readonly (string | number | Buffer)[]): Promise<unknown>;
};

export type RedisState = {
  readonly connected: boolean;
  /** Why Redis refused a command or a further connection within the last seconds, as a sentence; undefined if it refused none. */
  readonly refuses: string | undefined;
  /** Why the last connection attempt failed; undefined while connected and before the first failure. */
  readonly reason: string | undefined;
  /** Which keys Redis evicts when its memory is full, read every 30 s; undefined before the first read. */
  readonly maxmemoryPolicy: string | undefined;
  /** Whether Redis keeps an append-only file; undefined before the first read. */
  readonly appendOnly: boolean | undefined;
};

/** Offered by extensions that own a connection to Redis. */
export const REDIS = capability<RedisConnection>('redis');
