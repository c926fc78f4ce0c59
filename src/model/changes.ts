import type { Rejection } from './rejection.ts';
import type { Splice } from './texts.ts';

/** Bits of `BatchChanges.marks`. */
export const REJECTED = 1;
export const DROPPED = 2;
/** By the current processor. */
export const EDITED = 4;

/**
 * The changes of processors to a received batch. The verbs write them (src/model/verbs.ts), the engine reads them
 * after each processor.
 */
export type BatchChanges = {
  /** One byte an item. */
  readonly marks: Uint8Array;
  /** The list behind `ReceivedBatch.rejections`. */
  readonly rejections: Rejection[];
  /** Items that the current processor dropped, by reason. */
  dropped: Map<string, number> | undefined;
  /** Items that the current processor edited. */
  edited: number;
  /** Replacements of the current processor, not yet applied. */
  splices: Splice[];
  /** The bytes changed in a way that the index does not describe. */
  isIndexStale: boolean;
};
