import { createHash } from 'node:crypto';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Redis as RedisClass, RedisOptions } from 'ioredis';
import { backoff } from '../../src/component/backoff.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { RedisClient, RedisConnection, RedisScript } from '../../src/redis/redis.ts';
import type { Address } from './last-words.ts';
import { isAnswer, watchState } from './state-watch.ts';

/** Options of the library's constructors. */
type Options = Omit<RedisOptions, 'replyMapping'>;

export type RedisSettings = {
  /** `redis://` or `rediss://`, with user, password and database number. */
  readonly url: string;
  /** The hash tag of every key, without braces. */
  readonly keyPrefix: string;
  /** Milliseconds until a command without an answer fails. */
  readonly commandTimeout: number;
  readonly tls: TlsOptions | undefined;
  /** The Sentinels that know the address of the primary. */
  readonly sentinel: Sentinel | undefined;
  /** The address is that of a Cluster node. */
  readonly cluster: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type Sentinel = {
  /** The Sentinels' name of the primary. */
  readonly name: string;
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
  readonly password: string | undefined;
  /** The Sentinels too use TLS. */
  readonly isSecure: boolean;
};

export type OpenRedis = RedisConnection & {
  close(): Promise<void>;
};

const RETRY_AFTER_MS = 1000;
const LONGEST_RECONNECT_MS = 1000;
const reconnectBackoff = backoff({ first: 100, max: LONGEST_RECONNECT_MS });
/** A Sentinel without an answer after this long is skipped. */
const SENTINEL_TIMEOUT_MS = 1000;
/** A client of blocking commands reconnects after this long without data. */
const SILENCE_MS = 30_000;

/** Resolves when the first connection is open or has failed; a Redis that is away is retried. */
export async function openRedis(settings: RedisSettings): Promise<OpenRedis> {
  const { clock, logger, keyPrefix } = settings;
  const { make, failovers } = await clientMaker(settings);
  const client = make(failFast(settings));
  const prefix = `{${keyPrefix}}`;
  const watch = watchState(client, { clock, logger, address: plainAddressOf(settings) });
  const waiting = (): RedisClient => {
    const made = make(waitForRedis(clock));
    made.on('error', watch.lost);
    return made;
  };
  const subscriptions = subscriptionsOf(waiting);
  const stopReviving = reviveAfterEnd(client, clock);

  async function run<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    try {
      refuseWhenDisconnected(client);
      return await work(client);
    } catch (error) {
      watch.failed(error);
      throw redisError(error);
    }
  }

  const key = (...parts: readonly string[]): string => [prefix, ...parts].join(':');
  await firstAttempt(client);
  await watch.check();

  return {
    prefix,
    key,
    run,
    client,
    script: (lua) => scriptOf(lua, run),
    duplicate: waiting,
    subscribe: (channel, listener) => subscriptions.add(key(channel), listener),
    failed(error) {
      watch.failed(error);
      watch.lost(error);
    },
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
 * Does not wait for `connect` after the first error: while no Sentinel answers, the library retries inside `connect`
 * without a limit. The state watch reports the error.
 */
async function firstAttempt(client: RedisClient): Promise<void> {
  const failed = new Promise((resolve) => client.once('error', resolve));
  await Promise.race([client.connect().catch(ignore), failed]);
}

/** Reconnects a client after `end`, into which the library may get when it is disconnected while it connects. */
function reviveAfterEnd(client: RedisClient, clock: Clock): () => void {
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

/** Loads the library only if a configuration needs it. */
async function clientMaker(settings: RedisSettings): Promise<ClientMaker> {
  const { Cluster, Redis } = await import('ioredis');
  const { url, tls, sentinel, cluster, clock } = settings;
  const address = addressOf(url, tls);
  if (sentinel !== undefined) return sentinelClients(Redis, address, sentinel, { tls, clock });
  if (!cluster) {
    const make = (options: Options) => guarded(new Redis({ ...address, ...options }));
    return { make, failovers: undefined };
  }
  const { host = '127.0.0.1', port = 6379, ...rest } = address;
  const make = (options: Options): RedisClient => {
    const made = new Cluster([{ host, port }], {
      lazyConnect: options.lazyConnect ?? true,
      enableOfflineQueue: options.enableOfflineQueue ?? true,
      clusterRetryStrategy: reconnectDelay,
      slotsRefreshTimeout: 1000,
      redisOptions: { ...rest, ...options },
    });
    return made.on('+node', guarded);
  };
  return { make, failovers: undefined };
}

/**
 * The library listens to one error of each socket. A socket of TLS may have two, such as the server's refusal of the
 * certificate and the reset that follows, and an error without a listener ends the process. It also goes on in database 0
 * if the server refuses the one of the URL, so that jobs and counters would mix with those of another installation. A
 * library that gets the client duplicates it.
 */
function guarded(client: RedisClass): RedisClass {
  client.on('connect', () => client.stream.on('error', ignore));
  client.on('error', (error) => {
    if (isOfSelect(error)) client.stream.destroy();
  });
  const duplicate = client.duplicate.bind(client);
  client.duplicate = (override) => guarded(duplicate(override));
  return client;
}

/** The library notes the command in the error of an answer. */
function isOfSelect(error: unknown): boolean {
  if (!isAnswer(error)) return false;
  const { command } = error as { readonly command?: { readonly name?: string } };
  return command?.name === 'select';
}

/** Makes clients of the server that the Sentinels name as primary; they move with it. */
function sentinelClients(
  Redis: typeof RedisClass,
  { host: _host, port: _port, ...credentials }: Options,
  { name, addresses, password, isSecure }: Sentinel,
  { tls, clock }: Pick<RedisSettings, 'tls' | 'clock'>,
): ClientMaker {
  const clients = new Set<RedisClient>();
  const named: Options = {
    ...{ sentinels: [...addresses], name, ...credentials },
    ...(password === undefined ? {} : { sentinelPassword: password }),
    // Without this option the library would connect to the primary without TLS, even for rediss://.
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
    (options) => guarded(new Redis({ ...options, ...waitForRedis(clock) })),
    () => {
      for (const client of clients) reconnect(client);
    },
  );
  function make(options: Options): RedisClient {
    const client = guarded(new Redis({ ...named, ...options }));
    clients.add(client);
    client.on('end', () => clients.delete(client));
    return client;
  }
  return { make, failovers };
}

/** Disconnects the client, which then asks the Sentinels for the primary. */
function reconnect(client: RedisClient): void {
  if (client.status === 'ready' || client.status === 'connect') client.disconnect(true);
  // Its answer may come from a Sentinel that does not know the new primary yet. Disconnecting it while it connects
  // would end the client.
  else if (client.status === 'connecting') client.once('ready', () => client.disconnect(true));
}

type FailoverWatch = { close(): void };

/** The channel on which a Sentinel announces a new primary. */
const SWITCHED = '+switch-master';

/**
 * Listens to every Sentinel for a new primary. The previous primary may still answer if only the Sentinels cannot
 * reach it; its writes are lost, so its clients have to reconnect.
 */
function watchFailovers(
  name: string,
  sentinels: readonly Options[],
  connect: (options: Options) => RedisClient,
  onMoved: () => void,
): FailoverWatch {
  const watching = sentinels.map((sentinel) => {
    const client = connect(sentinel);
    client.on('error', ignore);
    client.on('message', (_channel: string, message: string) => {
      if (message.startsWith(`${name} `)) onMoved();
    });
    // The library subscribes again after every reconnect.
    client.subscribe(SWITCHED).catch(ignore);
    return client;
  });
  return {
    close() {
      for (const client of watching) client.disconnect();
    },
  };
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

/** Undefined if the address is that of TLS, or is not known before the Sentinels are asked. */
function plainAddressOf({ url, tls, sentinel }: RedisSettings): Address | undefined {
  const { host, port, tls: secured } = addressOf(url, tls);
  if (sentinel !== undefined || secured !== undefined) return undefined;
  return host === undefined || port === undefined ? undefined : { host, port };
}

function common(clock: Clock): Options {
  return {
    lazyConnect: true,
    connectTimeout: 1500,
    // The estimate of a server that loads its data is rough.
    maxLoadingRetryTime: LONGEST_RECONNECT_MS,
    disconnectTimeout: 5,
    keepAlive: 10_000,
    retryStrategy: reconnectDelay,
    reconnectOnError: reconnectWhenMoved(clock),
  };
}

/**
 * The server was the primary until a failover, or is still loading its data. If the address still leads there, a reconnect for each error
 * would break the commands between them, such as reads.
 */
function reconnectWhenMoved(clock: Clock): (error: Error) => boolean {
  let last = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (!/^(READONLY|LOADING)/.test(error.message)) return false;
    const now = clock.now();
    if (Math.abs(now - last) < LONGEST_RECONNECT_MS) return false;
    last = now;
    return true;
  };
}

/** Options of a client whose commands fail instead of waiting for Redis. */
function failFast({ commandTimeout, clock }: RedisSettings): Options {
  return {
    ...common(clock),
    commandTimeout,
    socketTimeout: commandTimeout + 500,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    autoResendUnfulfilledCommands: false,
  };
}

/**
 * Options of a client whose commands wait for Redis. It connects eagerly, because BullMQ gives up after a failed lazy
 * connection.
 */
function waitForRedis(clock: Clock): Options {
  return {
    ...common(clock),
    lazyConnect: false,
    maxRetriesPerRequest: null,
    socketTimeout: SILENCE_MS,
  };
}

/** `attempt` starts at 1. */
function reconnectDelay(attempt: number): number {
  return reconnectBackoff(attempt - 1);
}

/** Fails before the library does, which would leave a timer behind. */
function refuseWhenDisconnected({ status }: RedisClient): void {
  if (status !== 'ready') throw new Error(`the connection is ${status}`);
}

function redisError(error: unknown): RetryableError {
  if (error instanceof RetryableError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const options = { retryAfterMs: RETRY_AFTER_MS, cause: error };
  if (/\bOOM\b/.test(message)) return new RetryableError('redis_full', 'Redis is full', options);
  if (isAnswer(error)) {
    return new RetryableError('redis_failed', 'Redis refuses the command', options);
  }
  return new RetryableError('redis_failed', 'Redis cannot be reached', options);
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

type Subscriptions = {
  add(channel: string, listener: (message: string) => void): () => void;
  close(): void;
};

/** One connection for all channels, opened with the first subscription. */
function subscriptionsOf(make: () => RedisClient): Subscriptions {
  const channels = new Map<string, Set<(message: string) => void>>();
  let client: RedisClient | undefined;

  function opened(): RedisClient {
    if (client !== undefined) return client;
    const made = make();
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

/** The state watch reports connection errors. */
function ignore(): void {}
