import type { Clock } from '../component/component.ts';

/** Milliseconds between two looks at the connections. */
export const CHECK_MS = 100;
/** Bytes of frames that a connection may bring between two looks in addition to its calls. */
export const MAX_BYTES = 262_144;
/** The same for each call that it begins: its head. */
export const BYTES_OF_CALL = 65_536;
/**
 * A frame of a message costs as much as these bytes, and allows twice its own: a message in frames of one byte counts, and one in usual
 * frames has room for what TLS adds to it.
 */
export const BYTES_OF_FRAME = 128;
/** Milliseconds until a connection from the network of one that was cut is served. */
export const PENALTY_MS = 1_000;

/**
 * Cuts connections that bring frames without a call, such as window updates, and messages in frames of a few bytes. HTTP/2 bounds neither
 * their number nor their rate, and Node handles 160,000 of them in one read of a connection, without a key and without an event. So their
 * bytes are compared with those of calls:
 *
 *   bytes read since the last look > MAX_BYTES + heads and messages of calls ─▶ cut, and its network waits
 */
export type FrameFloods = {
  /** Watches an open connection; `onFlood` is called at most once. Undefined as network: its next connections do not wait. */
  watch(connection: Counted, network: string | undefined, onFlood: () => void): Watch;
  /** Milliseconds that a new connection of the network has to wait. */
  penaltyOf(network: string | undefined): number;
};

type Counted = { readonly bytesRead: number };

export type Watch = {
  /** A call began. */
  call(): void;
  /** A frame with so many bytes of a message arrived. */
  message(bytes: number): void;
  end(): void;
};

type Watched = {
  readonly connection: Counted;
  readonly network: string | undefined;
  readonly onFlood: () => void;
  seen: number;
  allowed: number;
};

export function frameFloods(clock: Clock): FrameFloods {
  const all = new Set<Watched>();
  /** The uptime at which each penalty ends. */
  const penalties = new Map<string, number>();
  let cancel: (() => void) | undefined;

  function arm(): void {
    cancel ??= clock.after(CHECK_MS, check);
  }

  function check(): void {
    cancel = undefined;
    const now = clock.uptime();
    for (const [network, end] of penalties) if (end <= now) penalties.delete(network);
    for (const watched of all) {
      const { bytesRead } = watched.connection;
      const isFlood = bytesRead - watched.seen > watched.allowed;
      watched.seen = bytesRead;
      watched.allowed = MAX_BYTES;
      if (!isFlood) continue;
      all.delete(watched);
      if (watched.network !== undefined) penalties.set(watched.network, now + PENALTY_MS);
      watched.onFlood();
    }
    if (all.size > 0) arm();
  }

  return {
    watch(connection, network, onFlood) {
      const seen = connection.bytesRead;
      const watched: Watched = { connection, network, onFlood, seen, allowed: MAX_BYTES };
      all.add(watched);
      arm();
      return {
        call() {
          watched.allowed += BYTES_OF_CALL;
        },
        message(bytes) {
          watched.allowed += 2 * bytes - BYTES_OF_FRAME;
        },
        end() {
          all.delete(watched);
          if (all.size > 0) return;
          cancel?.();
          cancel = undefined;
        },
      };
    },
    penaltyOf(network) {
      const end = network === undefined ? undefined : penalties.get(network);
      return Math.max(0, (end ?? 0) - clock.uptime());
    },
  };
}
