import type { Clock, Logger } from '../../src/component/component.ts';
import type { RedisClient, RedisState } from '../../src/redis/redis.ts';

const CHECK_MS = 30_000;
/** Milliseconds to the next check while Redis does not answer. */
const RECHECK_MS = 2_000;
/** How long the refusal of one command counts as the state of Redis. */
const REFUSING_MS = 5_000;

type StateWatch = {
  state(): RedisState;
  onState(listener: (state: RedisState) => void): () => void;
  check(): Promise<void>;
  /** Takes note of the error of a command. */
  failed(error: unknown): void;
  stop(): void;
};

/** The last refused command. Others may succeed, such as reads of a full Redis, so a refusal ends only with time. */
function watchRefusals(
  clock: Clock,
  logger: Logger,
): { note(error: unknown): void; current(): string | undefined } {
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
  };
}

/** Keeps the state of the connection; reads the `maxmemory-policy` at every check. */
export function watchState(client: RedisClient, clock: Clock, logger: Logger): StateWatch {
  const listeners = new Set<(state: RedisState) => void>();
  const refusals = watchRefusals(clock, logger);
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
      logger.info({}, next.connected ? 'Redis connected' : 'Redis disconnected');
    }
    const { maxmemoryPolicy } = next;
    if (maxmemoryPolicy !== undefined && maxmemoryPolicy !== before.maxmemoryPolicy) {
      logger.info({ maxmemoryPolicy }, 'Redis maxmemory-policy read');
    }
    for (const listener of listeners) listener({ ...next, refuses: refusals.current() });
  }

  async function check(): Promise<void> {
    cancel();
    if (isStopped) return;
    let next = CHECK_MS;
    try {
      if (client.status !== 'ready') throw new Error(`the connection is ${client.status}`);
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
    // A concurrent check may have set a timer.
    cancel();
    if (!isStopped) cancel = clock.after(next, () => void check());
  }

  /** Logs the reason of a failed connection attempt if it differs from that of the previous attempt. */
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

/** A host name with several addresses fails with one error per address; the first one is reported. */
function reasonOf(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const message = first instanceof Error ? first.message : String(first);
  // A server that hangs up before it serves causes both errors in turn; the library keeps the server's message.
  if (!/\b(EPIPE|ECONNRESET)\b/.test(message)) return message;
  return 'Redis closes the connection at once: it may be in protected mode or require TLS';
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
  if (/\b(MISCONF|NOREPLICAS)\b/.test(message)) return 'Redis refuses writes: see its log.';
  if (/\bNOPERM\b/.test(message)) return 'Redis denies a command to its user: see its ACL.';
  return isAnswer(error) ? 'Redis answers a command with an error: see the log.' : undefined;
}
