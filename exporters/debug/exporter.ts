import type { Exporter, Settings } from '../../src/component/component.ts';
import type { Batch, ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { itemsOf, rawEventId, rawOf } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import {
  indexOf,
  itemId,
  positionOf,
  requestIndexOf,
  sourceEvent,
} from '../../src/model/formats.ts';
import type { DebugConfig } from './config.ts';

/**
 * Logs batches. A batch that cannot be logged is reported, and never fails or delays the pipeline.
 *
 *   batch ──▶ sampled? ──▶ a line for the batch ──(normal)──▶ a line for each item ──(detailed)──▶ with its payload
 */
export function createExporter(settings: Settings, config: DebugConfig): Exporter {
  const { logger } = settings;
  const isSampled = createSampler(settings, config);
  let isStopped = false;

  function log(batch: Batch): void {
    const raw = rawOf(batch);
    logger.info(
      {
        batch: raw.id,
        data: batch.kind,
        format: raw.format,
        project: raw.tenant.projectId,
        items: itemsOf(batch),
        rejected: raw.rejections.length,
        bytes: raw.body.length,
      },
      'Batch',
    );
    if (config.verbosity === 'basic') return;
    const withPayload = config.verbosity === 'detailed';
    const lines = batch.kind === 'raw' ? rawItems(batch, withPayload) : items(batch, withPayload);
    for (const line of lines) logger.info(line, 'Item');
  }

  return {
    async start() {},
    async shutdown() {
      isStopped = true;
    },
    async consume(batch) {
      if (isStopped) throw new RetryableError('shutting_down', 'The exporter is shut down.');
      if (!isSampled()) return;
      try {
        log(batch);
      } catch (err) {
        logger.warn({ batch: rawOf(batch).id, err }, 'Batch could not be logged');
      }
    },
  };
}

function createSampler({ clock }: Settings, config: DebugConfig): () => boolean {
  let second = 0;
  let seen = 0;
  return () => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      seen = 0;
    }
    seen++;
    const after = seen - config.sampling_initial;
    if (after <= 0) return true;
    return config.sampling_thereafter > 0 && after % config.sampling_thereafter === 0;
  };
}

function* items(
  { source, observations }: ObservationBatch,
  withPayload: boolean,
): Iterable<object> {
  for (const observation of observations) {
    const position = positionOf(source, observation.index);
    yield {
      raw_event: rawEventId(source.id, observation.index),
      id: observation.id,
      trace: observation.traceId,
      parent: observation.parentId,
      name: observation.name,
      kind: observation.kind,
      status: observation.status,
      model: observation.model,
      ...(withPayload && position !== undefined ? { item: sourceEvent(source, position) } : {}),
    };
  }
}

function* rawItems(batch: SealedBatch, withPayload: boolean): Iterable<object> {
  const index = indexOf(batch);
  const rejected = new Set(batch.rejections.map((rejection) => rejection.index));
  for (let position = 0; position < index.count; position++) {
    const requestIndex = requestIndexOf(batch, position);
    if (rejected.has(requestIndex)) continue;
    yield {
      raw_event: rawEventId(batch.id, requestIndex),
      id: itemId(index, position),
      ...(withPayload ? { item: sourceEvent(batch, position) } : {}),
    };
  }
}
