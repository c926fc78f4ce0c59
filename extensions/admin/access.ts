import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock, Logger } from '../../src/component/component.ts';
import { tokenBuckets } from '../../src/component/token-buckets.ts';
import { clientNetwork } from '../../src/net/network.ts';
import { ApiError } from './errors.ts';

/** Checks the admin token. Throws an `ApiError` (401, 429) for any other credential. */
export type AdminAccess = {
  /** `authorization` has every value of the header. Returns the actor's name for the audit log. */
  check(authorization: readonly string[], address: string): string;
  /** The same for a token that the web UI sends in a body. */
  checkToken(token: string, address: string): void;
  /** Counts a wrong credential. Throws an `ApiError` (429) after too many from an address. */
  countFailure(address: string): void;
};

/** Wrong tokens that an address may send in a burst, and the interval of further attempts. */
const ATTEMPTS = 10;
const NEXT_ATTEMPT_MS = 6_000;
/** The cache evicts the address that failed longest ago. */
const MAX_ADDRESSES = 10_000;

export function guardAccess(token: string, clock: Clock, logger: Logger): AdminAccess {
  const expected = hash(token);
  const failures = tokenBuckets(
    { perSecond: 1000 / NEXT_ATTEMPT_MS, burst: ATTEMPTS, maxNames: MAX_ADDRESSES },
    clock,
  );
  // Hashes have one length, so the duration of the comparison reveals nothing about the token.
  const isRight = (given: string): boolean => timingSafeEqual(hash(given), expected);
  function countFailure(address: string): void {
    const network = clientNetwork(address);
    refuseIfTooMany(failures.take(network));
    if (failures.wait(network) > 0)
      logger.warn({ address }, 'Too many wrong admin tokens from an address');
  }
  return {
    countFailure,
    checkToken(token, address) {
      if (isRight(token)) return;
      countFailure(address);
      throw new ApiError('unauthorized', reasonFor(token, [token]));
    },
    check(authorization, address) {
      const [value] = authorization;
      if (value === undefined) {
        throw new ApiError('unauthorized', 'Send the admin token as Authorization: Bearer TOKEN.');
      }
      const given = /^bearer +(\S+) *$/i.exec(value)?.[1];
      const isOnly = given !== undefined && authorization.length === 1;
      if (isRight(given ?? '') && isOnly) return 'admin-token';
      // The right token is admitted above at any time: clients behind one proxy share an address.
      countFailure(address);
      throw new ApiError('unauthorized', reasonFor(given, authorization));
    },
  };
}

function refuseIfTooMany(wait: number): void {
  if (wait === 0) return;
  const message = 'Too many wrong tokens from this address. Retry after the time in Retry-After.';
  throw new ApiError('rate_limited', message, { retryAfterMs: Math.ceil(wait) });
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
