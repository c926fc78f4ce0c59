import { Refusal } from '../model/errors.ts';

/** What one request holds of the bytes in flight. */
export type ByteReservation = {
  /** Bytes held now. */
  readonly held: number;
  /** Takes more. Throws a `Refusal` (503) when there is no room; what is held stays held. */
  grow(bytes: number): void;
  /** Gives everything back; calling it again does nothing. */
  release(): void;
};

/** Bounds the memory of all requests together: whoever holds bytes of a body has reserved them here. */
export type BytesInFlight = {
  readonly limit: number;
  readonly held: number;
  /** Throws a `Refusal` (503) when there is no room. */
  reserve(bytes: number): ByteReservation;
};

/** `limit` in bytes: `service.limits.in_flight_bytes`. */
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
