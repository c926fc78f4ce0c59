import type { Steps } from '../../component/background.ts';
import type { Key } from '../rows/observation-row.ts';
import type { TextCutter } from './text-cutter.ts';
import type { SearchSource, SearchText } from './texts.ts';
import { searchText } from './texts.ts';

/** Observations and changes of one step. */
export const STEP_OBSERVATIONS = 100;

/** The place of the walk over the stored observations, from the newest trace on: those before it are left. */
export type SearchPlace = { readonly trace: number; readonly key: Key };

/** Before the newest trace. */
export const NEWEST_PLACE: SearchPlace = { trace: Number.MAX_SAFE_INTEGER, key: '' };

/** The oldest changes that the index does not have. */
export type SearchChanges = {
  /** The numbers of the changes. */
  readonly numbers: readonly number[];
  /** Traces that were removed. */
  readonly traces: readonly number[];
  /** Observations that were written, moved or removed, as the trace had them. */
  readonly observations: readonly { readonly trace: number; readonly n: number }[];
  /** Those of the observations that the trace still has. */
  readonly sources: readonly SearchSource[];
};

export type StoredSources = {
  readonly sources: readonly SearchSource[];
  /** Null behind the last trace. */
  readonly next: SearchPlace | null;
};

/** The changes of one step in the index: rows are removed first, and those of `texts` replaced. */
export type SearchStep = {
  readonly traces: readonly number[];
  readonly observations: readonly { readonly trace: number; readonly n: number }[];
  readonly texts: readonly SearchText[];
  /** The place behind the step of the walk; undefined if the step is not one of it. */
  readonly next?: SearchPlace | null;
};

/** The tables of a store that the index is made of. Repeating a step changes nothing. */
export type SearchTables = {
  /** Bytes of the text of a field. */
  readonly bytes: number;
  changes(): Promise<SearchChanges>;
  /** The place of the walk; null once all observations are indexed that were stored when the index began. */
  place(): Promise<SearchPlace | null>;
  stored(before: SearchPlace): Promise<StoredSources>;
  /** Changes the index, and removes the changes with these numbers. */
  save(step: SearchStep, changes: readonly number[]): Promise<void>;
};

/**
 * Makes the index of the text search, in steps. Writers only note the observations that they change; the walk over what is stored
 * goes on between their changes:
 *
 *   changes ─────────────┐
 *   stored observations ─┴▶ events in raw batches ─▶ words, tokens ─▶ index
 */
export async function* indexTexts(tables: SearchTables, cutter: TextCutter): Steps {
  for (;;) {
    const hasChanged = await indexChanges(tables, cutter);
    yield;
    const place = await tables.place();
    if (place !== null) {
      const { sources, next } = await tables.stored(place);
      const texts = await textsOf(sources, tables, cutter);
      await tables.save({ traces: [], observations: [], texts, next }, []);
      yield;
    } else if (!hasChanged) return;
  }
}

/** Resolves with whether there were changes. */
export async function indexChanges(tables: SearchTables, cutter: TextCutter): Promise<boolean> {
  const { numbers, traces, observations, sources } = await tables.changes();
  if (numbers.length === 0) return false;
  const texts = await textsOf(sources, tables, cutter);
  await tables.save({ traces, observations, texts }, numbers);
  return true;
}

async function textsOf(
  sources: readonly SearchSource[],
  { bytes }: SearchTables,
  cutter: TextCutter,
): Promise<SearchText[]> {
  const texts = await cutter.texts(sources, bytes);
  return sources.map((source, i) => searchText(source, texts[i] ?? []));
}
