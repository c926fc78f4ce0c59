import { readdirSync, readFileSync } from 'node:fs';

/** The part of a socket that has its descriptor. It is not public; without one, the connection is kept. */
type Descriptor = { readonly _handle?: { readonly fd?: number } | null };

/** A listener whose connections may be closed for those of others. */
export type DescriptorGiver = {
  readonly connections: number;
  /** Closes a connection for a client of this network, and returns false if none may be closed for it. */
  giveWay(network: string): boolean;
};

/** Descriptors that connections leave to files, to other servers, and to the listeners of operators: this share of all. */
const RESERVED_SHARE = 1 / 16;
const LEAST_RESERVED = 8;
const MOST_RESERVED = 64;

/**
 * The file descriptors of this process. If none is left, libuv accepts connections and closes them at once: no error says so, and
 * the store can open no file. So listeners keep connections only while some descriptors are left.
 */
export class Descriptors {
  /** `Infinity` if the system does not tell. */
  readonly limit: number;
  readonly #reserved: number;
  readonly #watchers = new Set<() => void>();
  readonly #givers = new Set<DescriptorGiver>();
  #shortages = 0;

  constructor(limit: number) {
    this.limit = limit;
    const share = Math.floor(limit * RESERVED_SHARE);
    this.#reserved = Math.min(MOST_RESERVED, Math.max(LEAST_RESERVED, share));
  }

  /** New connections that were closed because few descriptors were left. */
  get shortages(): number {
    return this.#shortages;
  }

  /**
   * Whether a new connection took one of the reserved descriptors; half of them are for the listeners of operators. A system gives
   * each connection the lowest number that is free, so all numbers below are in use. Such a connection counts as a shortage, and its
   * listener closes it.
   */
  areShortFor(socket: object, isForOperators: boolean): boolean {
    const number = (socket as Descriptor)._handle?.fd ?? -1;
    const reserved = isForOperators ? Math.floor(this.#reserved / 2) : this.#reserved;
    if (number < this.limit - reserved) return false;
    this.#shortages++;
    for (const watcher of this.#watchers) watcher();
    return true;
  }

  /** The listener is asked until the returned function is called. */
  offer(giver: DescriptorGiver): () => void {
    this.#givers.add(giver);
    return () => void this.#givers.delete(giver);
  }

  /** Closes a connection for a client of this network: of the listener with the most connections that has one to close. */
  makeRoom(network: string): void {
    const givers = [...this.#givers].sort((a, b) => b.connections - a.connections);
    for (const giver of givers) if (giver.giveWay(network)) return;
  }

  /** Calls back at each shortage, until the returned function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }
}

/** Those of this process. */
export const DESCRIPTORS = new Descriptors(descriptorLimit());

/** Node has raised the soft limit to the hard one before this is read. */
function descriptorLimit(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'latin1');
    const [, soft = ''] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
    return Number(soft) || Number.POSITIVE_INFINITY;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Descriptors in use, in time linear in their number; undefined if the system does not tell. */
export function openDescriptors(): number | undefined {
  try {
    // One of them reads the directory.
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
}
