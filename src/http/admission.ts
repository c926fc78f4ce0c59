import { Refusal } from '../model/errors.ts';

/** The part of the bytes in flight that one request holds. */
export type ByteReservation = {
  /** Bytes. */
  readonly held: number;
  /** Reserves more. Throws a `Refusal` (503) if there is no room; the bytes already held stay reserved. */
  grow(bytes: number): void;
  /** Releases all bytes; a second call has no effect. */
  release(): void;
};

/** Bounds the memory of all requests together: a request reserves the bytes of its body here. */
export type BytesInFlight = {
  readonly limit: number;
  readonly held: number;
  /** Throws a `Refusal` (503) if there is no room. */
  reserve(bytes: number): ByteReservation;
};

/** `limit` is `service.limits.in_flight_bytes`. */
export function boundBytesInFlight(limit: number): BytesInFlight {
  let total = 0;

  function take(bytes: number): void {
    if (total + bytes > limit) {
      throw new Refusal('unavailable', 'Too much data is in flight. Try again.', {
        retryAfterMs: 1000,
      });
    }
    total += bytes;
  }

  return {
    limit,
    get held() {
      return total;
    },
    reserve(bytes) {
      take(bytes);
      let held = bytes;
      let released = false;
      return {
        get held() {
          return held;
        },
        grow(more) {
          take(more);
          held += more;
        },
        release() {
          if (released) return;
          released = true;
          total -= held;
          held = 0;
        },
      };
    },
  };
}
