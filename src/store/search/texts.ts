import type { SealedBatch } from '../../model/batch.ts';
import { payload, placeInBody } from '../../model/formats.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import type { ObservationError, PayloadField } from '../../model/observation.ts';
import { PAYLOAD_FIELDS } from '../../model/observation.ts';
import type { ObservationRow } from '../rows/observation-row.ts';
import { detailsFromColumn, idOf, ROW } from '../rows/observation-row.ts';
import type { PayloadRefs } from '../rows/stored.ts';
import type { EventRef } from '../store.ts';
import { textOfJson } from './json-text.ts';
import type { SearchLabels, Token } from './tokens.ts';
import { labelTokens, wordTokens } from './tokens.ts';
import { firstWords, lineOfWords } from './words.ts';

/** The payload fields whose text is searched. */
const SEARCHED_FIELDS = ['inputs', 'outputs'] as const satisfies readonly PayloadField[];
type SearchedField = (typeof SEARCHED_FIELDS)[number];

/** The words of a payload field, as the stores keep them, and their tokens. */
export type FieldText = { readonly words: string; readonly tokens: readonly Token[] };

/** A field of an event of a batch. */
export type WantedField = { readonly position: number; readonly field: SearchedField };

/** Of each field the words in the first bytes of its text. An item that was erased has none. */
export function fieldTexts(
  batch: SealedBatch,
  wanted: readonly WantedField[],
  bytes: number,
): FieldText[] {
  const project = batch.tenant.projectId;
  return wanted.map(({ position, field }) => {
    const place = placeInBody(batch, position);
    const json = place === undefined ? undefined : payload(batch, place, [field])[field];
    const words = json === undefined ? [] : firstWords(textOfJson(json, bytes), bytes);
    return { words: lineOfWords(words), tokens: [...wordTokens(project, words)] };
  });
}

/** The row that the search has of an observation. */
export type SearchText = {
  readonly trace: number;
  /** The number of the observation. */
  readonly n: number;
  /** The words of the inputs, and those of the outputs behind a line break, which no phrase has. */
  readonly words: string;
  readonly tokens: readonly Token[];
};

export function searchText(
  { project, trace, n, labels }: Pick<SearchSource, 'project' | 'trace' | 'n' | 'labels'>,
  texts: readonly FieldText[],
): SearchText {
  const tokens = labelTokens(project, labels);
  for (const text of texts) {
    for (const token of text.tokens) tokens.add(token);
  }
  const lines = texts.map(({ words }) => words).filter((words) => words !== '');
  return { trace, n, words: lines.join('\n'), tokens: [...tokens] };
}

/** An observation to index. */
export type SearchSource = {
  readonly project: string;
  readonly trace: number;
  readonly n: number;
  readonly labels: SearchLabels;
  /** The events with the searched fields. */
  readonly fields: readonly (EventRef & { readonly field: SearchedField })[];
};

/** By the same rules as the conditions of a text term (`src/store/plan/conditions.ts`). */
export function labelsOf(traceId: string, row: ObservationRow): SearchLabels {
  const key = row[ROW.KEY];
  const id = idOf(traceId, key, row[ROW.LONG_ID]);
  const span = typeof key === 'string' && key.startsWith(':') ? [key, key.slice(1)] : [];
  const texts = [
    ...[row[ROW.NAME], row[ROW.MODEL], row[ROW.CUSTOM], messageIn(row[ROW.ERROR])],
    // It may name the trace.
    detailsFromColumn(row[ROW.DETAILS])?.traceName,
  ];
  return {
    texts: texts.filter((text) => typeof text === 'string'),
    ids: [traceId, id, ...span],
  };
}

function messageIn(error: string | null): string | null {
  return error === null ? null : (decodeJsonText(error) as ObservationError).message;
}

/** The searched fields among the events of all payload fields. */
export function searchedRefs(refs: PayloadRefs): SearchSource['fields'] {
  return SEARCHED_FIELDS.flatMap((field) => {
    const ref = refs[PAYLOAD_FIELDS.indexOf(field)] ?? null;
    return ref === null ? [] : [{ ...ref, field }];
  });
}
