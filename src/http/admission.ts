import type { Clock, RequestHead } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import { clientNetwork } from '../net/network.ts';

/**
 * Bounds the memory of all requests together, and shares it between clients. A request reserves bytes as they arrive.
 *
 * A key, a project and an address each have a share of the limit. A request above a share gets bytes as long as they
 * are free, except for a reserve that only requests within their shares use:
 *
 *   0 ───────────────── key above its share ──┤ project ──┤ address ──┤ within every share: limit
 *
 * A request states the bytes that it will hold at its end. It gets its next bytes only if all the rest is free too, so
 * that the request that got bytes last can always finish, then the one before it, and so on (the banker's algorithm,
 * with one resource). Bodies that arrive beside each other therefore never block each other. A request that could not
 * finish waits, and its body is not read. Requests in progress get bytes before new ones, and new ones in the order
 * of their level (within every share first), then of what their key holds, then of their arrival.
 *
 * For a waiting request of a better level, the budget takes the bytes of a body that arrives no more back: that
 * request is refused. A wait is bounded, and then the request is refused. The end of a body without a declared length
 * is an assumption. If such bodies exceed it together and block each other, the last of them is refused.
 */
export type BytesInFlight = {
  readonly limit: number;
  readonly held: number;
  /** Opens a request without bytes. Throws a `Refusal` (503) if its key has too many requests in progress. */
  open(client: Client): ByteReservation;
};

/** The client of a request, by the names that have a share each. */
export type Client = {
  readonly key: string;
  readonly project: string;
  /** The network that one client controls: its IPv4 address, or its IPv6 /64. */
  readonly address: string;
};

/** `fallback` is the tenant of requests without a key: there, each address counts as a key. */
export function clientOf(
  { remoteAddress }: RequestHead,
  tenant: Tenant,
  fallback: Tenant | undefined,
): Client {
  const address = clientNetwork(remoteAddress);
  const key = tenant === fallback ? address : tenant.keyId;
  return { key, project: tenant.projectId, address };
}

/** The part of the bytes in flight that one request holds. */
export type ByteReservation = {
  /** Bytes. */
  readonly held: number;
  /** The most that it can hold; more is refused, however much is free. */
  readonly most: number;
  /**
   * States the bytes that the request will hold at its end, and those beyond them that are likely. Without it the
   * length of the body counts as unknown.
   */
  expect(bytes: number, likely?: number): void;
  /**
   * Reserves more at once, for a complete body. Throws a `Refusal` (503) if there is no room; the bytes already held
   * stay reserved.
   */
  grow(bytes: number): void;
  /**
   * Reserves more. Undefined: reserved at once. Else the promise resolves when the bytes are reserved, or rejects
   * with a `Refusal` (503); the request then has to end.
   */
  obtain(bytes: number): Promise<void> | undefined;
  /**
   * From now on the budget may take the bytes back: it calls `end` once, and the request has to end with this refusal.
   * The returned function withdraws the offer.
   */
  yields(end: (refusal: Refusal) => void): () => void;
  /** Releases all bytes; a second call has no effect. */
  release(): void;
};

export type BudgetSettings = {
  readonly limit: number;
  /** The part of the limit, above 0 and at most 1, that a key, a project and an address hold while others wait. */
  readonly share: number;
  /** The part of the limit, below 1, that only requests within their shares use. */
  readonly reserve: number;
  readonly requestsPerKey: number;
  readonly clock: Clock;
};

/** Milliseconds that a request waits for its next bytes. Below the 10 s after which most exporters give up. */
export const MAX_WAIT_MS = 8_000;
/** Milliseconds after which a waiting request takes bytes back from bodies that still arrive. */
const PATIENCE_MS = 2_000;
/** A body that got no bytes for so many milliseconds, and waits for none, arrives no more. */
const ARRIVING_MS = 1_000;
/** Milliseconds after which an arriving body above its share gives way to others on the same level. */
const TURN_MS = 10_000;
/** A body of unknown length is taken for one that needs this part of the limit, until it has more. */
const ASSUMED_PART = 1 / 8;
/** Below this part of the limit, a body of unknown length of a key within its share is taken for complete. */
const SMALL_PART = 1 / 256;
/** A complete body may grow by this part of the limit into the reserve, for the edits of processors. */
const EDIT_PART = 1 / 1024;

/** 0: within every share. 1: the address is above its share, 2: the project, 3: the key. */
type Level = 0 | 1 | 2 | 3;
const WORST: Level = 3;

/** A key, a project or an address with requests in progress. */
type Party = { held: number; requests: number };

/** A request in progress. */
type Hold = {
  readonly client: Client;
  readonly key: Party;
  readonly project: Party;
  readonly address: Party;
  readonly openedAt: number;
  /** When it got bytes for the last time. */
  grownAt: number;
  held: number;
  /** The bytes that it holds at its end; undefined if the length of its body is unknown. */
  expected: number | undefined;
  state: 'open' | 'leaving' | 'released';
  /** Set while it waits for bytes. */
  waiting: Waiting | undefined;
  /** Set while the budget may take the bytes back. */
  end: ((refusal: Refusal) => void) | undefined;
};

type Waiting = {
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (refusal: Refusal) => void;
  cancelTimer: () => void;
};

export function boundBytesInFlight(settings: BudgetSettings): BytesInFlight {
  const budget = new Budget(settings);
  const most = budget.ceiling(WORST);
  return {
    limit: settings.limit,
    get held() {
      return budget.total;
    },
    open: (client) => new HeldBytes(budget, budget.open(client), most),
  };
}

/** Hot path: a class, because V8 makes the map of an object literal with a getter again for each request. */
class HeldBytes implements ByteReservation {
  readonly most: number;
  readonly #budget: Budget;
  readonly #hold: Hold;

  constructor(budget: Budget, hold: Hold, most: number) {
    this.#budget = budget;
    this.#hold = hold;
    this.most = most;
  }

  get held(): number {
    return this.#hold.held;
  }

  expect(bytes: number, likely = 0): void {
    this.#budget.expect(this.#hold, bytes, likely);
  }

  grow(bytes: number): void {
    this.#budget.grow(this.#hold, bytes);
  }

  obtain(bytes: number): Promise<void> | undefined {
    return this.#budget.obtain(this.#hold, bytes);
  }

  yields(end: (refusal: Refusal) => void): () => void {
    const hold = this.#hold;
    hold.end = end;
    return () => {
      hold.end = undefined;
    };
  }

  release(): void {
    this.#budget.release(this.#hold);
  }
}

class Budget {
  readonly #settings: BudgetSettings;
  readonly #shareBytes: number;
  readonly #keys = new Parties();
  readonly #projects = new Parties();
  readonly #addresses = new Parties();
  readonly #holds = new Set<Hold>();
  readonly #waiting = new Set<Hold>();
  #total = 0;
  /** Bytes of refused requests that have not been released yet. */
  #leaving = 0;

  constructor(settings: BudgetSettings) {
    this.#settings = settings;
    this.#shareBytes = Math.floor(settings.limit * settings.share);
  }

  get total(): number {
    return this.#total;
  }

  /** The most bytes that all requests hold together when one of this level gets more. */
  ceiling(level: Level): number {
    const { limit, reserve } = this.#settings;
    return limit - Math.floor((limit * reserve * level) / WORST);
  }

  open(client: Client): Hold {
    const { clock, requestsPerKey } = this.#settings;
    if (this.#keys.requestsOf(client.key) >= requestsPerKey) {
      throw unavailable('This key has too many requests in progress. Try again.');
    }
    const now = clock.now();
    const hold: Hold = {
      client,
      key: this.#keys.enter(client.key),
      project: this.#projects.enter(client.project),
      address: this.#addresses.enter(client.address),
      ...{ openedAt: now, grownAt: now, held: 0, expected: undefined },
      ...{ state: 'open', waiting: undefined, end: undefined },
    };
    this.#holds.add(hold);
    return hold;
  }

  /** The likely bytes are an assumption, which lifts no request above its share. */
  expect(hold: Hold, bytes: number, likely: number): void {
    hold.expected = Math.max(bytes, Math.min(bytes + likely, this.#shareBytes));
  }

  grow(hold: Hold, bytes: number): void {
    this.#refuseImpossible(hold, bytes);
    const { limit } = this.#settings;
    const isEdit = hold.held > 0 && bytes <= limit * EDIT_PART;
    const ceiling = isEdit ? limit : this.ceiling(this.#levelWith(hold, bytes));
    if (this.#total + bytes > ceiling) throw full();
    this.#take(hold, bytes);
  }

  obtain(hold: Hold, bytes: number): Promise<void> | undefined {
    this.#refuseImpossible(hold, bytes);
    if (!this.#canFinish(hold, bytes) || this.#comesAfterWaiting(hold, bytes)) {
      return this.#wait(hold, bytes);
    }
    this.#take(hold, bytes);
    return undefined;
  }

  #refuseImpossible(hold: Hold, bytes: number): void {
    if (hold.state !== 'open') throw full();
    if (hold.held + bytes <= this.ceiling(WORST)) return;
    throw unavailable('The request needs more memory than the service has for one request.');
  }

  /** Whether the next bytes of the request and all the rest of it are free. */
  #canFinish(hold: Hold, bytes: number): boolean {
    return this.#total + this.#rest(hold, bytes) <= this.#ceilingOfRest(hold, bytes);
  }

  #ceilingOfRest(hold: Hold, bytes: number): number {
    return this.ceiling(this.#levelWith(hold, this.#rest(hold, bytes)));
  }

  /** The bytes that a request still needs to its end, at least its next ones. */
  #rest(hold: Hold, bytes: number): number {
    const most = this.ceiling(WORST);
    const expected = hold.expected ?? this.#assumed(hold, bytes);
    return Math.max(bytes, Math.min(expected, most) - hold.held);
  }

  #assumed(hold: Hold, bytes: number): number {
    const { limit } = this.#settings;
    const held = hold.held + bytes;
    const isSmall = held <= limit * SMALL_PART && this.#levelWith(hold, bytes) < WORST;
    if (isSmall || hold.held === 0) return held;
    return Math.max(Math.floor(limit * ASSUMED_PART), 2 * hold.held);
  }

  /**
   * Whether a new request has to wait for its turn, although its bytes are free. A waiting request that lacks its next
   * bytes comes before all of a worse order. One that lacks only its rest comes before others of its key, except
   * those that need one grant: the key's small requests do not wait for its large ones.
   */
  #comesAfterWaiting(hold: Hold, bytes: number): boolean {
    if (hold.held > 0 || this.#waiting.size === 0) return false;
    const order = this.#orderOf(hold, bytes);
    const isSmall = this.#needsOneGrant(hold, bytes);
    for (const other of this.#waiting) {
      if (this.#orderOf(other) > order) continue;
      if ((other.key === hold.key && !isSmall) || this.#lacksRoom(other)) return true;
    }
    return false;
  }

  #needsOneGrant(hold: Hold, bytes: number): boolean {
    return hold.expected !== undefined && this.#rest(hold, bytes) === bytes;
  }

  /** Whether not even the next bytes of a waiting request are free. */
  #lacksRoom(hold: Hold): boolean {
    const bytes = bytesOf(hold);
    return this.#total + bytes > this.ceiling(this.#levelWith(hold, bytes));
  }

  /** The level of a request once it holds `more` bytes. */
  #levelWith({ key, project, address }: Hold, more: number): Level {
    const share = this.#shareBytes;
    if (key.held + more > share) return 3;
    if (project.held + more > share) return 2;
    return address.held + more > share ? 1 : 0;
  }

  /** Waiting requests get bytes in ascending order; arriving bodies give way in descending order. */
  #orderOf(hold: Hold, more: number = bytesOf(hold)): number {
    return this.#levelWith(hold, more) * this.#settings.limit + hold.key.held;
  }

  #take(hold: Hold, bytes: number): void {
    this.#total += bytes;
    hold.held += bytes;
    hold.grownAt = this.#settings.clock.now();
    for (const party of [hold.key, hold.project, hold.address]) party.held += bytes;
  }

  #wait(hold: Hold, bytes: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { bytes, resolve, reject, cancelTimer: () => {} };
    hold.waiting = waiting;
    this.#waiting.add(hold);
    this.#arm(hold, waiting, MAX_WAIT_MS);
    if (!this.#reclaim(hold, bytes, false)) this.#endStandstill();
    return promise;
  }

  /** Counts the time in timers, because the clock may be set. */
  #arm(hold: Hold, waiting: Waiting, leftMs: number): void {
    waiting.cancelTimer = this.#settings.clock.after(PATIENCE_MS, () => {
      if (leftMs <= PATIENCE_MS) {
        this.#refuse(hold);
        return;
      }
      this.#arm(hold, waiting, leftMs - PATIENCE_MS);
      this.#reclaim(hold, waiting.bytes, true);
    });
  }

  /**
   * Takes bytes back for a waiting request. False if the requests that have to give way do not hold enough: then it
   * takes nothing back.
   */
  #reclaim(hold: Hold, bytes: number, hasWaited: boolean): boolean {
    const rest = this.#rest(hold, bytes);
    let missing = this.#total - this.#leaving + rest - this.#ceilingOfRest(hold, bytes);
    if (missing <= 0) return true;
    const yielding = [...this.#holds].filter((other) => this.#yields(other, hold, hasWaited));
    if (yielding.reduce((sum, { held }) => sum + held, 0) < missing) return false;
    // The sort keeps the newest first.
    yielding.reverse().sort((a, b) => this.#orderOf(b, 0) - this.#orderOf(a, 0));
    for (const other of yielding) {
      if (missing <= 0) break;
      missing -= other.held;
      this.#refuse(other);
    }
    return true;
  }

  /** Whether a request has to give way to a waiting one of another key. */
  #yields(other: Hold, hold: Hold, hasWaited: boolean): boolean {
    const isInterruptible = other.end !== undefined || other.waiting !== undefined;
    if (other.state !== 'open' || !isInterruptible || other.key === hold.key) return false;
    const now = this.#settings.clock.now();
    const isArriving = other.waiting !== undefined || now - other.grownAt < ARRIVING_MS;
    if (isArriving && !hasWaited) return false;
    const rest = this.#rest(hold, bytesOf(hold));
    const wanted = this.#levelWith(hold, rest);
    const level = this.#levelWith(other, 0);
    if (level !== wanted || level === 0) return level > wanted;
    const hadItsTurn = now - other.openedAt >= TURN_MS;
    return other.key.held > hold.key.held + rest || (hasWaited && hadItsTurn);
  }

  /** From now on the bytes of the request do not count for its key; they are free when it releases them. */
  #refuse(hold: Hold): void {
    const { waiting, end } = hold;
    this.#leave(hold);
    waiting?.reject(full());
    end?.(full());
  }

  #leave(hold: Hold): void {
    if (hold.state !== 'open') return;
    hold.state = 'leaving';
    this.#stopWaiting(hold);
    hold.end = undefined;
    this.#leaving += hold.held;
    for (const party of [hold.key, hold.project, hold.address]) party.held -= hold.held;
  }

  #stopWaiting(hold: Hold): void {
    hold.waiting?.cancelTimer();
    hold.waiting = undefined;
    this.#waiting.delete(hold);
  }

  release(hold: Hold): void {
    if (hold.state === 'released') return;
    hold.waiting?.reject(full());
    this.#leave(hold);
    hold.state = 'released';
    this.#leaving -= hold.held;
    this.#total -= hold.held;
    hold.held = 0;
    this.#holds.delete(hold);
    this.#keys.leave(hold.client.key);
    this.#projects.leave(hold.client.project);
    this.#addresses.leave(hold.client.address);
    this.#serve();
  }

  /**
   * If all bytes are held by requests that wait for more, nothing would be released: refuses the last in the order,
   * of those with a body of unknown length if there are any.
   */
  #endStandstill(): void {
    let held = 0;
    for (const hold of this.#waiting) held += hold.held;
    if (held < this.#total) return;
    const isUnknown = ({ expected }: Hold): number => (expected === undefined ? 1 : 0);
    const [last] = [...this.#waiting]
      .filter((hold) => hold.held > 0)
      .reverse()
      .sort(
        (a, b) =>
          isUnknown(b) - isUnknown(a) ||
          this.#orderOf(b) - this.#orderOf(a) ||
          b.openedAt - a.openedAt,
      );
    if (last !== undefined) this.#refuse(last);
  }

  /** Gives free bytes to the waiting requests: first to those in progress, then to new ones in their order. */
  #serve(): void {
    if (this.#waiting.size === 0) return;
    const passed = new Set<Hold>();
    const passedKeys = new Set<Party>();
    const isNext = (hold: Hold): boolean =>
      !passed.has(hold) && (!passedKeys.has(hold.key) || this.#needsOneGrant(hold, bytesOf(hold)));
    while (this.#waiting.size > 0 && this.#total < this.#settings.limit) {
      const next =
        this.#firstWaiting((hold) => hold.held > 0 && this.#canFinish(hold, bytesOf(hold))) ??
        this.#firstWaiting((hold) => hold.held === 0 && isNext(hold));
      if (next?.waiting === undefined) break;
      const { bytes, resolve } = next.waiting;
      if (this.#canFinish(next, bytes)) {
        this.#stopWaiting(next);
        this.#take(next, bytes);
        resolve();
        continue;
      }
      if (this.#lacksRoom(next)) break;
      passed.add(next);
      passedKeys.add(next.key);
    }
    this.#endStandstill();
  }

  #firstWaiting(isEligible: (hold: Hold) => boolean): Hold | undefined {
    let first: Hold | undefined;
    let least = Infinity;
    for (const hold of this.#waiting) {
      const order = this.#orderOf(hold);
      if (order >= least || !isEligible(hold)) continue;
      first = hold;
      least = order;
    }
    return first;
  }
}

function bytesOf({ waiting }: Hold): number {
  return waiting?.bytes ?? 0;
}

/** The parties of one kind that have requests in progress. */
class Parties {
  readonly #parties = new Map<string, Party>();

  requestsOf(name: string): number {
    return this.#parties.get(name)?.requests ?? 0;
  }

  enter(name: string): Party {
    const known = this.#parties.get(name);
    if (known !== undefined) {
      known.requests++;
      return known;
    }
    const party = { held: 0, requests: 1 };
    this.#parties.set(name, party);
    return party;
  }

  leave(name: string): void {
    const party = this.#parties.get(name);
    if (party !== undefined && --party.requests === 0) this.#parties.delete(name);
  }
}

function full(): Refusal {
  return unavailable('Too much data is in flight. Try again.');
}

function unavailable(message: string): Refusal {
  return new Refusal('unavailable', message, { retryAfterMs: 1000 });
}
