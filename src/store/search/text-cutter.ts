import type { SealedBatch } from '../../model/batch.ts';
import { createThread, threadFile } from '../../thread/thread.ts';
import type { TraceStore } from '../store.ts';
import type { FieldText, SearchSource, WantedField } from './texts.ts';

/** `batch` is null if the thread may have it. */
export type TextRequest = {
  /** Names the batch and its stored body. */
  readonly key: string;
  readonly batch: SealedBatch | null;
  readonly wanted: readonly WantedField[];
  readonly bytes: number;
};
/** Null if the thread does not have the batch. */
export type TextReply = readonly FieldText[] | null;

/** Cuts the texts of observations out of raw batches, in a thread, so that neither requests nor reads wait for it. */
export type TextCutter = {
  /** The texts of each observation; those of batches that are gone are left out. */
  texts(sources: readonly SearchSource[], bytes: number): Promise<FieldText[][]>;
  close(): Promise<void>;
};

export function textCutter(traces: Pick<TraceStore, 'getBatches' | 'batchStamps'>): TextCutter {
  const thread = createThread<TextRequest, TextReply>(threadFile(import.meta.url, 'text-thread'));

  async function cut(
    projectId: string,
    batchId: string,
    wanted: readonly WantedField[],
    bytes: number,
  ): Promise<readonly FieldText[]> {
    const stamp = (await traces.batchStamps(projectId, [batchId])).get(batchId);
    if (stamp === undefined) return [];
    const request = { key: `${batchId} ${stamp}`, wanted, bytes };
    const known = await thread.ask({ ...request, batch: null });
    if (known !== null) return known;
    const [batch] = await traces.getBatches(projectId, [batchId]);
    return batch === undefined ? [] : ((await thread.ask({ ...request, batch })) ?? []);
  }

  return {
    async texts(sources, bytes) {
      const found = sources.map(({ fields }) => new Array<FieldText | undefined>(fields.length));
      for (const { project, batchId, places } of byBatch(sources)) {
        const wanted = places.map(({ position, field }) => ({ position, field }));
        const texts = await cut(project, batchId, wanted, bytes);
        for (const [i, { source, at }] of places.entries()) {
          const cells = found[source];
          if (cells !== undefined) cells[at] = texts[i];
        }
      }
      return found.map((texts) => texts.filter((text) => text !== undefined));
    },
    close: () => thread.close(),
  };
}

type BatchPlaces = {
  readonly project: string;
  readonly batchId: string;
  /** `at`: the index in the fields of the observation with the index `source`. */
  readonly places: (WantedField & { readonly source: number; readonly at: number })[];
};

function byBatch(sources: readonly SearchSource[]): Iterable<BatchPlaces> {
  const batches = new Map<string, BatchPlaces>();
  for (const [source, { project, fields }] of sources.entries()) {
    for (const [at, { batchId, position, field }] of fields.entries()) {
      const known = batches.get(batchId) ?? { project, batchId, places: [] };
      batches.set(batchId, known);
      known.places.push({ position, field, source, at });
    }
  }
  return batches.values();
}
