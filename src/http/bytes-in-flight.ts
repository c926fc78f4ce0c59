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
type Reservation = {
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
  readonly #reservation: Reservation;

  constructor(budget: Budget, reservation: Reservation, most: number) {
    this.#budget = budget;
    this.#reservation = reservation;
    this.most = most;
  }

  get held(): number {
    return this.#reservation.held;
  }

  expect(bytes: number, likely = 0): void {
    this.#budget.expect(this.#reservation, bytes, likely);
  }

  grow(bytes: number): void {
    this.#budget.grow(this.#reservation, bytes);
  }

  obtain(bytes: number): Promise<void> | undefined {
    return this.#budget.obtain(this.#reservation, bytes);
  }

  yields(end: (refusal: Refusal) => void): () => void {
    const reservation = this.#reservation;
    reservation.end = end;
    return () => {
      reservation.end = undefined;
    };
  }

  release(): void {
    this.#budget.release(this.#reservation);
  }
}

class Budget {
  readonly #settings: BudgetSettings;
  readonly #shareBytes: number;
  readonly #keys = new Parties();
  readonly #projects = new Parties();
  readonly #addresses = new Parties();
  readonly #reservations = new Set<Reservation>();
  readonly #waiting = new Set<Reservation>();
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

  open(client: Client): Reservation {
    const { clock, requestsPerKey } = this.#settings;
    if (this.#keys.requestsOf(client.key) >= requestsPerKey) {
      throw unavailable('This key has too many requests in progress. Try again.');
    }
    const now = clock.now();
    const reservation: Reservation = {
      client,
      key: this.#keys.enter(client.key),
      project: this.#projects.enter(client.project),
      address: this.#addresses.enter(client.address),
      ...{ openedAt: now, grownAt: now, held: 0, expected: undefined },
      ...{ state: 'open', waiting: undefined, end: undefined },
    };
    this.#reservations.add(reservation);
    return reservation;
  }

  /** The likely bytes are an assumption, which lifts no request above its share. */
  expect(reservation: Reservation, bytes: number, likely: number): void {
    reservation.expected = Math.max(bytes, Math.min(bytes + likely, this.#shareBytes));
  }

  grow(reservation: Reservation, bytes: number): void {
    this.#refuseImpossible(reservation, bytes);
    const { limit } = this.#settings;
    const isEdit = reservation.held > 0 && bytes <= limit * EDIT_PART;
    const ceiling = isEdit ? limit : this.ceiling(this.#levelWith(reservation, bytes));
    if (this.#total + bytes > ceiling) throw full();
    this.#take(reservation, bytes);
  }

  obtain(reservation: Reservation, bytes: number): Promise<void> | undefined {
    this.#refuseImpossible(reservation, bytes);
    if (!this.#canFinish(reservation, bytes) || this.#comesAfterWaiting(reservation, bytes)) {
      return this.#wait(reservation, bytes);
    }
    this.#take(reservation, bytes);
    return undefined;
  }

  #refuseImpossible(reservation: Reservation, bytes: number): void {
    if (reservation.state !== 'open') throw full();
    if (reservation.held + bytes <= this.ceiling(WORST)) return;
    throw unavailable('The request needs more memory than the service has for one request.');
  }

  /** Whether the next bytes of the request and all the rest of it are free. */
  #canFinish(reservation: Reservation, bytes: number): boolean {
    return this.#total + this.#rest(reservation, bytes) <= this.#ceilingOfRest(reservation, bytes);
  }

  #ceilingOfRest(reservation: Reservation, bytes: number): number {
    return this.ceiling(this.#levelWith(reservation, this.#rest(reservation, bytes)));
  }

  /** The bytes that a request still needs to its end, at least its next ones. */
  #rest(reservation: Reservation, bytes: number): number {
    const most = this.ceiling(WORST);
    const expected = reservation.expected ?? this.#assumed(reservation, bytes);
    return Math.max(bytes, Math.min(expected, most) - reservation.held);
  }

  #assumed(reservation: Reservation, bytes: number): number {
    const { limit } = this.#settings;
    const held = reservation.held + bytes;
    const isSmall = held <= limit * SMALL_PART && this.#levelWith(reservation, bytes) < WORST;
    if (isSmall || reservation.held === 0) return held;
    return Math.max(Math.floor(limit * ASSUMED_PART), 2 * reservation.held);
  }

  /**
   * Whether a new request has to wait for its turn, although its bytes are free. A waiting request that lacks its next
   * bytes comes before all of a worse order. One that lacks only its rest comes before others of its key, except
   * those that need one grant: the key's small requests do not wait for its large ones.
   */
  #comesAfterWaiting(reservation: Reservation, bytes: number): boolean {
    if (reservation.held > 0 || this.#waiting.size === 0) return false;
    const order = this.#orderOf(reservation, bytes);
    const isSmall = this.#needsOneGrant(reservation, bytes);
    for (const other of this.#waiting) {
      if (this.#orderOf(other) > order) continue;
      if ((other.key === reservation.key && !isSmall) || this.#lacksRoom(other)) return true;
    }
    return false;
  }

  #needsOneGrant(reservation: Reservation, bytes: number): boolean {
    return reservation.expected !== undefined && this.#rest(reservation, bytes) === bytes;
  }

  /** Whether not even the next bytes of a waiting request are free. */
  #lacksRoom(reservation: Reservation): boolean {
    const bytes = bytesOf(reservation);
    return this.#total + bytes > this.ceiling(this.#levelWith(reservation, bytes));
  }

  /** The level of a request once it holds `more` bytes. */
  #levelWith({ key, project, address }: Reservation, more: number): Level {
    const share = this.#shareBytes;
    if (key.held + more > share) return 3;
    if (project.held + more > share) return 2;
    return address.held + more > share ? 1 : 0;
  }

  /** Waiting requests get bytes in ascending order; arriving bodies give way in descending order. */
  #orderOf(reservation: Reservation, more: number = bytesOf(reservation)): number {
    return this.#levelWith(reservation, more) * this.#settings.limit + reservation.key.held;
  }

  #take(reservation: Reservation, bytes: number): void {
    this.#total += bytes;
    reservation.held += bytes;
    reservation.grownAt = this.#settings.clock.now();
    for (const party of [reservation.key, reservation.project, reservation.address])
      party.held += bytes;
  }

  #wait(reservation: Reservation, bytes: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { bytes, resolve, reject, cancelTimer: () => {} };
    reservation.waiting = waiting;
    this.#waiting.add(reservation);
    this.#arm(reservation, waiting, MAX_WAIT_MS);
    if (!this.#reclaim(reservation, bytes, false)) this.#endStandstill();
    return promise;
  }

  /** Counts the time in timers, because the clock may be set. */
  #arm(reservation: Reservation, waiting: Waiting, leftMs: number): void {
    waiting.cancelTimer = this.#settings.clock.after(PATIENCE_MS, () => {
      if (leftMs <= PATIENCE_MS) {
        this.#refuse(reservation);
        return;
      }
      this.#arm(reservation, waiting, leftMs - PATIENCE_MS);
      this.#reclaim(reservation, waiting.bytes, true);
    });
  }

  /**
   * Takes bytes back for a waiting request. False if the requests that have to give way do not hold enough: then it
   * takes nothing back.
   */
  #reclaim(reservation: Reservation, bytes: number, hasWaited: boolean): boolean {
    const rest = this.#rest(reservation, bytes);
    let missing = this.#total - this.#leaving + rest - this.#ceilingOfRest(reservation, bytes);
    if (missing <= 0) return true;
    const yielding = [...this.#reservations].filter((other) =>
      this.#yields(other, reservation, hasWaited),
    );
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
  #yields(other: Reservation, reservation: Reservation, hasWaited: boolean): boolean {
    const isInterruptible = other.end !== undefined || other.waiting !== undefined;
    if (other.state !== 'open' || !isInterruptible || other.key === reservation.key) return false;
    const now = this.#settings.clock.now();
    const isArriving = other.waiting !== undefined || now - other.grownAt < ARRIVING_MS;
    if (isArriving && !hasWaited) return false;
    const rest = this.#rest(reservation, bytesOf(reservation));
    const wanted = this.#levelWith(reservation, rest);
    const level = this.#levelWith(other, 0);
    if (level !== wanted || level === 0) return level > wanted;
    const hadItsTurn = now - other.openedAt >= TURN_MS;
    return other.key.held > reservation.key.held + rest || (hasWaited && hadItsTurn);
  }

  /** From now on the bytes of the request do not count for its key; they are free when it releases them. */
  #refuse(reservation: Reservation): void {
    const { waiting, end } = reservation;
    this.#leave(reservation);
    waiting?.reject(full());
    end?.(full());
  }

  #leave(reservation: Reservation): void {
    if (reservation.state !== 'open') return;
    reservation.state = 'leaving';
    this.#stopWaiting(reservation);
    reservation.end = undefined;
    this.#leaving += reservation.held;
    for (const party of [reservation.key, reservation.project, reservation.address])
      party.held -= reservation.held;
  }

  #stopWaiting(reservation: Reservation): void {
    reservation.waiting?.cancelTimer();
    reservation.waiting = undefined;
    this.#waiting.delete(reservation);
  }

  release(reservation: Reservation): void {
    if (reservation.state === 'released') return;
    reservation.waiting?.reject(full());
    this.#leave(reservation);
    reservation.state = 'released';
    this.#leaving -= reservation.held;
    this.#total -= reservation.held;
    reservation.held = 0;
    this.#reservations.delete(reservation);
    this.#keys.leave(reservation.client.key);
    this.#projects.leave(reservation.client.project);
    this.#addresses.leave(reservation.client.address);
    this.#serve();
  }

  /**
   * If all bytes are held by requests that wait for more, nothing would be released: refuses the last in the order,
   * of those with a body of unknown length if there are any.
   */
  #endStandstill(): void {
    let held = 0;
    for (const reservation of this.#waiting) held += reservation.held;
    if (held < this.#total) return;
    const isUnknown = ({ expected }: Reservation): number => (expected === undefined ? 1 : 0);
    const [last] = [...this.#waiting]
      .filter((reservation) => reservation.held > 0)
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
    const passed = new Set<Reservation>();
    const passedKeys = new Set<Party>();
    const isNext = (reservation: Reservation): boolean =>
      !passed.has(reservation) &&
      (!passedKeys.has(reservation.key) || this.#needsOneGrant(reservation, bytesOf(reservation)));
    while (this.#waiting.size > 0 && this.#total < this.#settings.limit) {
      const next =
        this.#firstWaiting(
          (reservation) =>
            reservation.held > 0 && this.#canFinish(reservation, bytesOf(reservation)),
        ) ?? this.#firstWaiting((reservation) => reservation.held === 0 && isNext(reservation));
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

  #firstWaiting(isEligible: (reservation: Reservation) => boolean): Reservation | undefined {
    let first: Reservation | undefined;
    let least = Infinity;
    for (const reservation of this.#waiting) {
      const order = this.#orderOf(reservation);
      if (order >= least || !isEligible(reservation)) continue;
      first = reservation;
      least = order;
    }
    return first;
  }
}

function bytesOf({ waiting }: Reservation): number {
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
