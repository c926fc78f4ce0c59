import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock, Logger } from '../../src/component/component.ts';
import { LruCache } from '../../src/component/lru.ts';
import { ApiError } from './errors.ts';

/** Checks the admin token. Throws an `ApiError` (401, 429) for any other credential. */
export type Access = {
  /** `authorization` has every value of the header. Returns the actor's name for the audit log. */
  check(authorization: readonly string[], address: string): string;
};

/** Wrong tokens that an address may send in a burst, and the interval of further attempts. */
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
        throw new ApiError('unauthorized', 'Send the admin token as Authorization: Bearer TOKEN.');
      }
      failures.refuseIfTooMany(address);
      const given = /^bearer +(\S+) *$/i.exec(value)?.[1];
      // Hashes have one length, so the duration of the comparison reveals nothing about the token.
      const isRight = timingSafeEqual(hash(given ?? ''), expected);
      if (isRight && given !== undefined && authorization.length === 1) return 'admin-token';
      const isLast = failures.note(address);
      if (isLast) logger.warn({ address }, 'Too many wrong admin tokens from an address');
      throw new ApiError('unauthorized', reasonFor(given, authorization));
    },
  };
}

function reasonFor(given: string | undefined, authorization: readonly string[]): string {
  if (authorization.length > 1) return 'The request has more than one Authorization header.';
  if (given === undefined) return 'Send the admin token as Authorization: Bearer TOKEN.';
  if (given.startsWith('ws_')) return 'This is a project key. Send the admin token.';
  return 'The admin token is not correct.';
}

function hash(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Failed attempts of each address, as a token bucket. */
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
    const message = 'Too many wrong tokens from this address. Retry after the time in Retry-After.';
    throw new ApiError('rate_limited', message, { retryAfterMs });
  }

  /** True for the failure that exhausts the bucket of the address. */
  note(address: string): boolean {
    const key = bucketOf(address);
    const level = this.#level(key) + 1;
    this.#byAddress.set(key, { level, at: this.#clock.now() });
    return level > ATTEMPTS - 1;
  }

  #level(key: string): number {
    const found = this.#byAddress.peek(key);
    if (found === undefined) return 0;
    // A clock that goes back neither adds nor removes attempts.
    const passed = Math.max(0, this.#clock.now() - found.at);
    const level = Math.max(0, found.level - passed / NEXT_ATTEMPT_MS);
    if (level === 0) this.#byAddress.delete(key);
    return level;
  }
}

/** The holder of one IPv6 address usually holds its /64 network, so the network counts as one address. */
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
