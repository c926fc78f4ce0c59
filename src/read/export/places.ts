import { Refusal } from '../../model/errors.ts';

/** The limits of exports, from `service.limits`. */
export type ExportLimits = {
  /** Exports in progress. */
  readonly concurrent_exports: number;
  /** Exports of a key in progress. */
  readonly exports_per_key: number;
};

/** Bounds the exports in progress: each one reads until its client has everything. */
export type ExportPlaces = {
  /** Throws a `Refusal` (429, 503). The returned function gives the place back. */
  take(keyId: string): () => void;
  readonly taken: number;
};

const RETRY_MS = 5_000;

export function exportPlaces({ concurrent_exports, exports_per_key }: ExportLimits): ExportPlaces {
  /** Only keys with exports in progress. */
  const ofKey = new Map<string, number>();
  let taken = 0;
  return {
    take(keyId) {
      const known = ofKey.get(keyId) ?? 0;
      if (known >= exports_per_key) {
        const message = `This key has ${exports_per_key} exports in progress. Try again.`;
        throw new Refusal('rate_limited', message, { retryAfterMs: RETRY_MS });
      }
      if (taken >= concurrent_exports) {
        const message = `${concurrent_exports} exports are in progress. Try again.`;
        throw new Refusal('unavailable', message, { retryAfterMs: RETRY_MS });
      }
      taken++;
      ofKey.set(keyId, known + 1);
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        taken--;
        const left = (ofKey.get(keyId) ?? 1) - 1;
        if (left > 0) ofKey.set(keyId, left);
        else ofKey.delete(keyId);
      };
    },
    get taken() {
      return taken;
    },
  };
}
