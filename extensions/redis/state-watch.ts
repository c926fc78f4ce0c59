import type { Clock, Logger } from '../../src/component/component.ts';
import type { RedisClient, RedisState } from '../../src/redis/redis.ts';
import type { Address } from './last-words.ts';
import { lastWordsOf } from './last-words.ts';

const CHECK_MS = 30_000;
/** Milliseconds to the next check while Redis does not answer. */
const RECHECK_MS = 2_000;
/** How long the refusal of one command counts as the state of Redis. */
const REFUSING_MS = 5_000;
/** How long a server's reason to close connections holds before the server is asked again. */
const HANG_UP_MS = 5_000;

type StateWatch = {
  state(): RedisState;
  onState(listener: (state: RedisState) => void): () => void;
  check(): Promise<void>;
  /** Takes note of the error of a command. */
  failed(error: unknown): void;
  /** Takes note of the error of another client's connection. */
  lost(error: unknown): void;
  stop(): void;
};

/** The last refused command. Others may succeed, such as reads of a full Redis, so a refusal ends only with time. */
function watchRefusals(
  clock: Clock,
  logger: Logger,
): { note(error: unknown): void; hungUp(reason: string): void; current(): string | undefined } {
  let last: { readonly message: string; readonly at: number } | undefined;

  function current(): string | undefined {
    if (last !== undefined && Math.abs(clock.now() - last.at) > REFUSING_MS) last = undefined;
    return last?.message;
  }

  return {
    current,
    note(error) {
      const message = refusalIn(error);
      if (message === undefined) return;
      if (current() !== message) logger.warn({ reason: reasonOf(error) }, 'Redis refuses commands');
      last = { message, at: clock.now() };
    },
    hungUp(reason) {
      const message = `${reason}.`;
      if (current() !== message) logger.warn({ reason }, 'Redis refuses a connection');
      last = { message, at: clock.now() };
    },
  };
}

/** Asks a server why it closes connections, once in `HANG_UP_MS`. Undefined if it says nothing, or has no known address. */
function watchHangUps(clock: Clock, address: Address | undefined) {
  let asked: { readonly at: number; readonly reason: Promise<string | undefined> } | undefined;
  return (): Promise<string | undefined> => {
    if (address === undefined) return Promise.resolve(undefined);
    const now = clock.now();
    if (asked === undefined || Math.abs(now - asked.at) >= HANG_UP_MS) {
      asked = { at: now, reason: lastWordsOf(address) };
    }
    return asked.reason;
  };
}

export type WatchSettings = {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the server can be asked without TLS; undefined if Sentinels name it. */
  readonly address: Address | undefined;
};

type Known = Omit<RedisState, 'refuses'>;

const UNKNOWN: Known = {
  connected: false,
  reason: undefined,
  maxmemoryPolicy: undefined,
  appendOnly: undefined,
};

/** Keeps the state of the connection; reads the `maxmemory-policy` at every check. */
export function watchState(
  client: RedisClient,
  { clock, logger, address }: WatchSettings,
): StateWatch {
  const hangUpReason = watchHangUps(clock, address);
  const listeners = new Set<(state: RedisState) => void>();
  const refusals = watchRefusals(clock, logger);
  let state = UNKNOWN;
  let isStopped = false;
  let cancel = (): void => {};

  function enter(next: Known): void {
    const before = state;
    state = next;
    logChange(logger, before, next);
    for (const listener of listeners) listener({ ...next, refuses: refusals.current() });
  }

  function leave(): void {
    if (state.connected) enter({ ...state, connected: false });
  }

  async function check(): Promise<void> {
    cancel();
    if (isStopped) return;
    let next = CHECK_MS;
    try {
      if (await isLoading(client)) unreachable(LOADING);
      if (client.status !== 'ready') throw new Error(`the connection is ${client.status}`);
      enter(stateIn(await client.info()));
    } catch (error) {
      next = RECHECK_MS;
      leave();
      // The library connects although the server denies INFO.
      if (isAnswer(error)) unreachable(reasonOf(error));
    }
    checkIn(next);
  }

  function checkIn(ms: number): void {
    // A concurrent check may have set a timer.
    cancel();
    if (!isStopped) cancel = clock.after(ms, () => void check());
  }

  /** Logs the reason of a failed connection attempt if it differs from that of the previous attempt. */
  function unreachable(reason: string): void {
    if (state.connected || isStopped || isSame(reason, state.reason)) return;
    state = { ...state, reason };
    logger.warn({ reason }, 'Redis cannot be reached');
  }

  function failed(error: unknown): void {
    if (isConsequence(error)) return;
    if (!isHangUp(error)) unreachable(reasonOf(error));
    else void hangUpReason().then((reason) => unreachable(reason ?? HANG_UP));
  }

  client.on('error', failed);
  client.on('ready', () => void check());
  client.on('close', () => {
    if (!state.connected || isStopped) return;
    leave();
    checkIn(RECHECK_MS);
  });
  return {
    state: () => ({ ...state, refuses: refusals.current() }),
    onState(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    check,
    failed: refusals.note,
    // The server may serve this client, and accept no further one. Other errors concern this client as well.
    lost(error) {
      if (!isHangUp(error)) return;
      void hangUpReason().then((reason) => {
        if (reason !== undefined && state.connected && !isStopped) refusals.hungUp(reason);
      });
    },
    stop() {
      isStopped = true;
      cancel();
      listeners.clear();
    },
  };
}

function logChange(logger: Logger, before: Known, { connected, maxmemoryPolicy }: Known): void {
  if (before.connected !== connected) {
    logger.info({}, connected ? 'Redis connected' : 'Redis disconnected');
  }
  if (maxmemoryPolicy !== undefined && maxmemoryPolicy !== before.maxmemoryPolicy) {
    logger.info({ maxmemoryPolicy }, 'Redis maxmemory-policy read');
  }
}

/** A server that loads its data answers INFO. The library waits for the end without an error. */
async function isLoading(client: RedisClient): Promise<boolean> {
  return client.status === 'connect' && /^loading:1/m.test(await client.info());
}

function stateIn(info: string): Known {
  return {
    connected: true,
    reason: undefined,
    maxmemoryPolicy: /^maxmemory_policy:(\S+)/m.exec(info)?.[1],
    appendOnly: /^aof_enabled:1/m.test(info),
  };
}

const LOADING = 'Redis loads its data from the disk';
const HANG_UP =
  'Redis closes the connection at once: it may be at its maxclients, in protected mode, or require TLS';

/** The library goes on with a connection that this extension closed because of another error. */
function isConsequence(error: unknown): boolean {
  return /\bStream isn't writeable\b/.test(reasonOf(error));
}

/** A server that hangs up before it serves causes both errors in turn; the library keeps the server's message. */
function isHangUp(error: unknown): boolean {
  return /\b(EPIPE|ECONNRESET)\b/.test(reasonOf(error));
}

/** A host name with several addresses fails with one error per address; the first one is reported. Of a Cluster, the error of the last node. */
function reasonOf(error: unknown): string {
  const ofNode = error instanceof Error && 'lastNodeError' in error ? error.lastNodeError : error;
  const first: unknown = ofNode instanceof AggregateError ? ofNode.errors[0] : ofNode;
  return first instanceof Error ? first.message : String(first);
}

/** Ignores numbers: waiting times and local ports differ between attempts. */
function isSame(reason: string, before: string | undefined): boolean {
  const words = (text: string): string => text.replace(/\d+/g, '');
  return before !== undefined && words(reason) === words(before);
}

/** Whether Redis answered the command, with an error. */
export function isAnswer(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError';
}

/** Why Redis refused the command, as a sentence; undefined if it gave no answer. */
function refusalIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : '';
  if (/\bOOM\b/.test(message)) return 'Redis is full.';
  if (/\bREADONLY\b/.test(message)) return 'Redis is a replica and refuses writes.';
  if (/\bMISCONF\b/.test(message)) {
    return 'Redis refuses writes because it could not save its data: see its log.';
  }
  if (/\bNOREPLICAS\b/.test(message)) return 'Redis refuses writes: too few replicas follow it.';
  if (/\bNOPERM\b/.test(message)) return 'Redis denies a command to its user: see its ACL.';
  if (/^(MOVED|ASK) /.test(message)) return 'Redis is a node of a Cluster: set `cluster`.';
  if (/^CLUSTERDOWN/.test(message)) return 'The Redis Cluster serves no commands: see its log.';
  return isAnswer(error) ? 'Redis answers a command with an error: see the log.' : undefined;
}
