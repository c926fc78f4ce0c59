/** `indexing` until every observation is in the index that was stored when the index began. */
export type SearchState = 'off' | 'indexing' | 'ready';

/** How far the index of the text search is. The counts are of all projects. */
export type SearchStatus = {
  readonly state: SearchState;
  /** Bytes of the text of inputs, and of outputs, that are searched; null without payload search. */
  readonly payloadBytes: number | null;
  /** Observations that the walk over the stored ones has indexed, and about how many there were. */
  readonly indexed: number;
  readonly stored: number;
  /** Changes of observations that are not in the index yet, at most `COUNTED_CHANGES`. */
  readonly waiting: number;
};

export const COUNTED_CHANGES = 10_000;

export const SEARCH_OFF: SearchStatus = {
  ...{ state: 'off', payloadBytes: null, indexed: 0, stored: 0, waiting: 0 },
};

export type SearchStore = { status(): Promise<SearchStatus> };

/** The details for the health of a store. */
export function searchDetails(status: SearchStatus | undefined): {
  readonly search_state: SearchState;
  readonly search_progress: number | null;
} {
  const { state } = status ?? SEARCH_OFF;
  return {
    search_state: state,
    search_progress: status === undefined ? null : progressOf(status),
  };
}

/** The part of the stored observations that is in the index, from 0 to 1. */
export function progressOf({ state, indexed, stored }: SearchStatus): number {
  if (state === 'ready') return 1;
  return stored === 0 ? 0 : Math.min(0.999, indexed / stored);
}
