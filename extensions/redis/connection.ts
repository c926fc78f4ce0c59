import { createHash } from 'node:crypto';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Redis as RedisClass, RedisOptions } from 'ioredis';
import { backoff } from '../../src/component/backoff.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type {
  RedisClient,
  RedisConnection,
  RedisScript,
  RedisState,
} from '../../src/redis/redis.ts';
import type { FailoverWatch } from './failovers.ts';
import { watchFailovers } from './failovers.ts';

/** As the library's constructors take them. */
type Options = Omit<RedisOptions, 'replyMapping'>;

export type RedisSettings = {
  /** `redis://` or `rediss://`, with user, password and number of the database. */
  readonly url: string;
  /** Ends the hash tag at the beginning of every key. */
  readonly keyPrefix: string;
  /** Milliseconds after which a command has failed. */
  readonly commandTimeout: number;
  readonly tls: TlsOptions | undefined;
  /** The Sentinels that know the address, and what they call it. */
  readonly sentinel: Sentinel | undefined;
  /** The address is a node of a Cluster. */
  readonly cluster: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type Sentinel = {
  readonly name: string;
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  readonly password: string | undefined;
  /** They too are reached over TLS. */
  readonly isSecure: boolean;
};

export type OpenRedis = RedisConnection & {
  close(): Promise<void>;
};

const CHECK_MS = 30_000;
/** How soon it is asked again after it did not answer. */
const RECHECK_MS = 2_000;
const RETRY_AFTER_MS = 1000;
const LONGEST_RECONNECT_MS = 1000;
const reconnectBackoff = backoff({ first: 100, max: LONGEST_RECONNECT_MS });
/** A Sentinel that is silent is passed over. */
const SENTINEL_TIMEOUT_MS = 1000;
/** A client whose commands block, and hears nothing for this long, begins anew. */
const SILENCE_MS = 30_000;

/** Resolves when the first connection stands or has failed: what is away may come later. */
export async function openRedis(settings: RedisSettings): Promise<OpenRedis> {
  const { clock, logger, keyPrefix } = settings;
  const { make, failovers } = await clientMaker(settings);
  const client = make(failingSoon(settings));
  const prefix = `{${keyPrefix}}`;
  const watch = watchState(client, clock, logger);
  const subscriptions = subscriptionsOf(() => make(waiting()));
  const stopReviving = revive(client, clock);

  async function run<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    try {
      refuseWhenAway(client);
      return await work(client);
    } catch (error) {
      watch.failed(error);
      throw redisError(error);
    }
  }

  const key = (...parts: readonly string[]): string => [prefix, ...parts].join(':');
  await firstTry(client);
  await watch.check();

  return {
    prefix,
    key,
    run,
    client,
    script: (lua) => scriptOf(lua, run),
    duplicate: () => make(waiting()),
    subscribe: (channel, listener) => subscriptions.add(key(channel), listener),
    state: watch.state,
    onState: watch.onState,
    async close() {
      watch.stop();
      stopReviving();
      failovers?.close();
      subscriptions.close();
      client.disconnect();
    },
  };
}

/**
 * Why it failed, the watch hears and says. While no Sentinel answers, the library goes on trying without
 * an end to `connect`.
 */
async function firstTry(client: RedisClient): Promise<void> {
  const failed = new Promise((resolve) => client.once('error', resolve));
  await Promise.race([client.connect().catch(ignore), failed]);
}

/** The library ends a client for good when it is cut off at the wrong moment. */
function revive(client: RedisClient, clock: Clock): () => void {
  let cancel = (): void => {};
  const begin = (): void => {
    cancel = clock.after(LONGEST_RECONNECT_MS, () => void client.connect().catch(ignore));
  };
  client.on('end', begin);
  return () => {
    client.off('end', begin);
    cancel();
  };
}

type ClientMaker = {
  make(options: Options): RedisClient;
  readonly failovers: FailoverWatch | undefined;
};

/** Loads the library when a configuration names Redis, and not before. */
async function clientMaker(settings: RedisSettings): Promise<ClientMaker> {
  const { Cluster, Redis } = await import('ioredis');
  const { url, tls, sentinel, cluster } = settings;
  const address = addressOf(url, tls);
  if (sentinel !== undefined) return sentinelClients(Redis, address, sentinel, tls);
  if (!cluster) {
    return { make: (options) => new Redis({ ...address, ...options }), failovers: undefined };
  }
  const { host = '127.0.0.1', port = 6379, ...rest } = address;
  const make = (options: Options): RedisClient =>
    new Cluster([{ host, port }], {
      lazyConnect: options.lazyConnect ?? true,
      enableOfflineQueue: options.enableOfflineQueue ?? true,
      clusterRetryStrategy: reconnectDelay,
      slotsRefreshTimeout: 1000,
      redisOptions: { ...rest, ...options },
    });
  return { make, failovers: undefined };
}

/** All clients are of the server that the Sentinels name, and move with it. */
function sentinelClients(
  Redis: typeof RedisClass,
  { host: _host, port: _port, ...credentials }: Options,
  { name, addresses, password, isSecure }: Sentinel,
  tls: TlsOptions | undefined,
): ClientMaker {
  const clients = new Set<RedisClient>();
  const named: Options = {
    ...{ sentinels: [...addresses], name, ...credentials },
    ...(password === undefined ? {} : { sentinelPassword: password }),
    // Else the library would speak to the primary in the clear, whatever the URL says.
    ...(credentials.tls === undefined ? {} : { enableTLSForSentinelMode: true }),
    ...(isSecure ? { sentinelTLS: tls ?? {} } : {}),
    sentinelRetryStrategy: reconnectDelay,
    sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
  };
  const watched = addresses.map((address) => ({
    ...address,
    ...(password === undefined ? {} : { password }),
    ...(isSecure ? { tls: tls ?? {} } : {}),
  }));
  const failovers = watchFailovers(
    name,
    watched,
    (options) => new Redis({ ...options, ...waiting() }),
    () => {
      for (const client of clients) moveOn(client);
    },
  );
  function make(options: Options): RedisClient {
    const client = new Redis({ ...named, ...options });
    clients.add(client);
    client.on('end', () => clients.delete(client));
    return client;
  }
  return { make, failovers };
}

/** Asks the Sentinels again where to connect to. */
function moveOn(client: RedisClient): void {
  if (client.status === 'ready' || client.status === 'connect') client.disconnect(true);
  // It may have asked before the others were told. Cut off now, it would end for good.
  else if (client.status === 'connecting') client.once('ready', () => client.disconnect(true));
}

function addressOf(url: string, tls: TlsOptions | undefined): Options {
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  const db = Number(pathname.slice(1));
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? 6379 : Number(port),
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(Number.isInteger(db) && db > 0 ? { db } : {}),
    ...(protocol === 'rediss:' || tls !== undefined ? { tls: tls ?? {} } : {}),
  };
}

const common: Options = {
  lazyConnect: true,
  connectTimeout: 1500,
  disconnectTimeout: 5,
  keepAlive: 10_000,
  retryStrategy: reconnectDelay,
  // A replica that was the primary until a moment ago: the connection is made anew.
  reconnectOnError: (error) => /^(READONLY|LOADING)/.test(error.message),
};

/** Commands fail, and do not wait for a Redis that is away. */
function failingSoon({ commandTimeout }: RedisSettings): Options {
  return {
    ...common,
    commandTimeout,
    socketTimeout: commandTimeout + 500,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    autoResendUnfulfilledCommands: false,
  };
}

/** Not lazily: a library takes the failure of the first connection for the end of it. */
function waiting(): Options {
  return {
    ...common,
    lazyConnect: false,
    maxRetriesPerRequest: null,
    socketTimeout: SILENCE_MS,
  };
}

/** `attempt` begins at 1. */
function reconnectDelay(attempt: number): number {
  return reconnectBackoff(attempt - 1);
}

/** The library would set a timer for a command that has failed already. */
function refuseWhenAway({ status }: RedisClient): void {
  if (status !== 'ready') throw new Error(`the connection is ${status}`);
}

function redisError(error: unknown): RetryableError {
  if (error instanceof RetryableError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const options = { retryAfterMs: RETRY_AFTER_MS, cause: error };
  if (/\bOOM\b/.test(message)) return new RetryableError('redis_full', 'Redis is full', options);
  return new RetryableError('redis_failed', 'Redis cannot be reached', options);
}

/** What concerns everybody who writes, as long as it is so. */
function refusalIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : '';
  if (/\bOOM\b/.test(message)) return 'Redis is full.';
  if (/\bREADONLY\b/.test(message)) return 'Redis is a replica, and takes nothing.';
  if (/\b(MISCONF|NOREPLICAS)\b/.test(message)) return 'Redis takes nothing: see its log.';
  return undefined;
}

function scriptOf(lua: string, run: RedisConnection['run']): RedisScript {
  const hash = createHash('sha1').update(lua).digest('hex');
  return {
    run: (keys, args) =>
      run(async (client) => {
        try {
          return await client.evalsha(hash, keys.length, ...keys, ...args);
        } catch (error) {
          if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
          return client.call('EVAL', [lua, keys.length, ...keys, ...args]);
        }
      }),
  };
}

type StateWatch = {
  state(): RedisState;
  onState(listener: (state: RedisState) => void): () => void;
  check(): Promise<void>;
  /** A command failed. */
  failed(error: unknown): void;
  stop(): void;
};

/** How long what was refused to one is taken to be refused to everybody. */
const REFUSING_MS = 5_000;

/** Commands that write may fail while others succeed: only time ends that. */
function refusalsOf(
  clock: Clock,
  logger: Logger,
): { note(error: unknown): void; current(): string | undefined } {
  let last: { readonly said: string; readonly at: number } | undefined;

  function current(): string | undefined {
    if (last !== undefined && Math.abs(clock.now() - last.at) > REFUSING_MS) last = undefined;
    return last?.said;
  }

  return {
    current,
    note(error) {
      const said = refusalIn(error);
      if (said === undefined) return;
      if (current() !== said) logger.warn({ reason: reasonOf(error) }, 'Redis takes nothing');
      last = { said, at: clock.now() };
    },
  };
}

/** Knows whether Redis is there, and asks now and then what it does with a full memory. */
function watchState(client: RedisClient, clock: Clock, logger: Logger): StateWatch {
  const listeners = new Set<(state: RedisState) => void>();
  const refusals = refusalsOf(clock, logger);
  let state: Omit<RedisState, 'refuses'> = {
    connected: false,
    reason: undefined,
    maxmemoryPolicy: undefined,
    appendOnly: undefined,
  };
  let isStopped = false;
  let cancel = (): void => {};

  function enter(next: Omit<RedisState, 'refuses'>): void {
    const before = state;
    state = next;
    if (before.connected !== next.connected) {
      logger.info({}, next.connected ? 'Redis is there' : 'Redis is away');
    }
    const { maxmemoryPolicy } = next;
    if (maxmemoryPolicy !== undefined && maxmemoryPolicy !== before.maxmemoryPolicy) {
      logger.info({ maxmemoryPolicy }, 'what Redis does when its memory is full');
    }
    for (const listener of listeners) listener({ ...next, refuses: refusals.current() });
  }

  async function check(): Promise<void> {
    cancel();
    if (isStopped) return;
    let next = CHECK_MS;
    try {
      refuseWhenAway(client);
      const info = await client.info();
      enter({
        connected: true,
        reason: undefined,
        maxmemoryPolicy: /^maxmemory_policy:(\S+)/m.exec(info)?.[1],
        appendOnly: /^aof_enabled:1/m.test(info),
      });
    } catch {
      next = RECHECK_MS;
      if (state.connected) enter({ ...state, connected: false });
    }
    // Two may have been under way.
    cancel();
    if (!isStopped) cancel = clock.after(next, () => void check());
  }

  /** Each try to connect fails with its reason; the log says it when it is another one. */
  function failed(error: unknown): void {
    const reason = reasonOf(error);
    if (state.connected || isStopped || isSame(reason, state.reason)) return;
    state = { ...state, reason };
    logger.warn({ reason }, 'Redis cannot be reached');
  }

  client.on('error', failed);
  client.on('ready', () => void check());
  client.on('close', () => {
    if (state.connected && !isStopped) enter({ ...state, connected: false });
  });
  return {
    state: () => ({ ...state, refuses: refusals.current() }),
    onState(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    check,
    failed: refusals.note,
    stop() {
      isStopped = true;
      cancel();
      listeners.clear();
    },
  };
}

/** A name with several addresses fails with an error for each of them. */
function reasonOf(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const message = first instanceof Error ? first.message : String(first);
  // Told by turns in both ways, of one that hangs up before it serves; what it said the library keeps.
  if (!/\b(EPIPE|ECONNRESET)\b/.test(message)) return message;
  return 'Redis ends the connection at once: it may be in protected mode, or want TLS';
}

/** Waiting times and ports of the caller differ from one try to the next. */
function isSame(reason: string, before: string | undefined): boolean {
  const words = (text: string): string => text.replace(/\d+/g, '');
  return before !== undefined && words(reason) === words(before);
}

type Subscriptions = {
  add(channel: string, listener: (message: string) => void): () => void;
  close(): void;
};

/** One connection for all channels, made with the first of them. */
function subscriptionsOf(make: () => RedisClient): Subscriptions {
  const channels = new Map<string, Set<(message: string) => void>>();
  let client: RedisClient | undefined;

  function opened(): RedisClient {
    if (client !== undefined) return client;
    const made = make();
    made.on('error', () => {});
    made.on('message', (channel: string, message: string) => {
      for (const listener of channels.get(channel) ?? []) listener(message);
    });
    client = made;
    return made;
  }

  return {
    add(channel, listener) {
      const listeners = channels.get(channel) ?? new Set();
      if (listeners.size === 0) opened().subscribe(channel).catch(ignore);
      channels.set(channel, listeners.add(listener));
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0 || !channels.delete(channel)) return;
        client?.unsubscribe(channel).catch(ignore);
      };
    },
    close() {
      channels.clear();
      client?.disconnect();
    },
  };
}

/** Whether the connection stands, and what is wrong with it, is told by its watch. */
function ignore(): void {}
