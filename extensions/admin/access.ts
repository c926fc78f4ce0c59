import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock, Logger } from '../../src/component/component.ts';
import { LruCache } from '../../src/component/lru.ts';
import { ApiError } from './errors.ts';

/** Decides who may manage. Throws an `ApiError` (401, 429) for everybody else. */
export type Access = {
  /** `authorization` holds every value the header came with; gives the actor's name. */
  check(authorization: readonly string[], address: string): string;
};

/** Wrong tokens an address may send at once, and how often it gets another try. */
const ATTEMPTS = 10;
const NEXT_ATTEMPT_MS = 6_000;
/** The cache evicts the address that failed longest ago. */
const MAX_ADDRESSES = 10_000;

export function guardAccess(token: string, clock: Clock, logger: Logger): Access {
  const expected = hash(token);
  const failures = new Failures(clock);
  return {
    check(authorization, address) {
      const [value] = authorization;
      if (value === undefined) {
        throw new ApiError('unauthorized', 'Send the admin token as Authorization: Bearer.');
      }
      failures.refuseIfTooMany(address);
      const given = /^bearer +(\S+) *$/i.exec(value)?.[1];
      // Hashes have one length, so that the comparison tells nothing of how much was right.
      const isRight = timingSafeEqual(hash(given ?? ''), expected);
      if (isRight && given !== undefined && authorization.length === 1) return 'admin-token';
      const isLast = failures.note(address);
      if (isLast) logger.warn({ address }, 'Too many wrong admin tokens came from an address.');
      throw new ApiError('unauthorized', reasonFor(given, authorization));
    },
  };
}

function reasonFor(given: string | undefined, authorization: readonly string[]): string {
  if (authorization.length > 1) return 'The Authorization header came more than once.';
  if (given === undefined) return 'Send the admin token as Authorization: Bearer.';
  if (given.startsWith('ws_')) return 'A project key manages nothing; this takes the admin token.';
  return 'This is not the admin token.';
}

function hash(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Failed attempts of each address, as a bucket that empties with time. */
class Failures {
  readonly #clock: Clock;
  readonly #byAddress = new LruCache<string, { level: number; at: number }>({
    maxEntries: MAX_ADDRESSES,
  });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  refuseIfTooMany(address: string): void {
    const level = this.#level(bucketOf(address));
    if (level <= ATTEMPTS - 1) return;
    const retryAfterMs = Math.ceil((level - (ATTEMPTS - 1)) * NEXT_ATTEMPT_MS);
    const message = 'Too many wrong tokens came from this address. Try again later.';
    throw new ApiError('rate_limited', message, { retryAfterMs });
  }

  /** True for the failure after which the address has to wait. */
  note(address: string): boolean {
    const key = bucketOf(address);
    const level = this.#level(key) + 1;
    this.#byAddress.set(key, { level, at: this.#clock.now() });
    return level > ATTEMPTS - 1;
  }

  #level(key: string): number {
    const found = this.#byAddress.peek(key);
    if (found === undefined) return 0;
    // A clock that goes back gives nothing, and takes nothing either.
    const passed = Math.max(0, this.#clock.now() - found.at);
    const level = Math.max(0, found.level - passed / NEXT_ATTEMPT_MS);
    if (level === 0) this.#byAddress.delete(key);
    return level;
  }
}

/** Whoever has one address of an IPv6 network has all of it: they count as one. */
function bucketOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':');
    while (groups.length + last.length < 8) groups.push('0');
    groups.push(...last);
  }
  return groups.slice(0, 4).join(':');
}
