import type { Branch, Exporter } from '../component/component.ts';
import type { Batch } from '../model/batch.ts';
import { itemsOf, rawOf } from '../model/batch.ts';
import { PermanentError, Refusal, RetryableError } from '../model/errors.ts';
import { hasItems, shareBatch } from '../model/formats.ts';
import { isImplicitKey, type RequestContext } from '../model/request-context.ts';
import type { ExporterEdge } from './edges.ts';

/** An exporter of a pipeline behind its counted edge. */
export type Sink = Branch & { readonly exporter: Exporter };

/** Counts the items of every `consume` of an exporter. */
export function createSink(exporterId: string, exporter: Exporter, edge: ExporterEdge): Sink {
  return {
    exporterId,
    exporter,
    batchesTogether: exporter.batchesTogether,
    keepsNothing: exporter.keepsNothing,
    async consume(batch, request) {
      const items = itemsOf(batch);
      const end = edge.begin();
      try {
        await exporter.consume(batch, request);
      } catch (error) {
        const failed = error instanceof PermanentError ? error.failures?.length : undefined;
        edge.failed(failed ?? items, error);
        if (failed !== undefined) edge.sent(items - failed);
        throw error;
      } finally {
        end();
      }
      edge.sent(items);
    },
  };
}

/**
 * Resolves when every exporter that needs the batch has it.
 *
 *   batch ──▶ with items ─────────────────▶ all sinks in parallel
 *         ──▶ with items and an answer ───▶ all sinks but the keeper of answers, in parallel ─▶ the keeper
 *         ──▶ none, but an answer to keep ▶ the keeper
 *         ──▶ none ──▶ done
 *
 * The keeper makes the answer durable with its batch, and a repetition of the request gets that answer and reaches no
 * exporter. So the keeper comes last: an answer that is kept means that every exporter has the batch.
 */
export async function fanOut(
  sinks: readonly Sink[],
  batch: Batch,
  request?: RequestContext,
): Promise<void> {
  const [only] = sinks;
  if (only === undefined) return;
  const keeper = keeperOf(sinks, request);
  if (!hasItems(batch)) {
    // An implicit key keeps an answer only if something was counted: a repetition may be judged again.
    const isImplicit = request?.answer !== undefined && isImplicitKey(request.answer.key);
    if (!isImplicit) await keeper?.consume(batch, request);
    return;
  }
  if (sinks.length === 1) {
    await only.consume(batch, request);
    return;
  }
  shareBatch(rawOf(batch));
  if (keeper === undefined || request === undefined) return consumeAll(sinks, batch, request);
  const withoutAnswer = { ...request, answer: undefined };
  const others = sinks.filter((sink) => sink !== keeper);
  try {
    await consumeAll(others, batch, withoutAnswer);
  } finally {
    if (withoutAnswer.isUsageEntered) request.isUsageEntered = true;
  }
  await keeper.consume(batch, request);
}

async function consumeAll(
  sinks: readonly Sink[],
  batch: Batch,
  request: RequestContext | undefined,
): Promise<void> {
  const results = await Promise.allSettled(sinks.map((sink) => sink.consume(batch, request)));
  const failures = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason as unknown] : [],
  );
  if (failures.length > 0) throw fold(failures);
}

/** The sink that keeps the answer of the request; undefined if there is none to keep. */
function keeperOf(sinks: readonly Sink[], request: RequestContext | undefined): Sink | undefined {
  if (request?.answer === undefined) return undefined;
  return sinks.find(({ exporter }) => exporter.idempotency !== undefined);
}

/**
 * One error for several. It is retryable if one of them is, and permanent only if none can succeed later: the
 * sender repeats the batch for all exporters.
 */
function fold(failures: readonly unknown[]): unknown {
  if (failures.length === 1) return failures[0];
  const cause = new AggregateError(failures, `${failures.length} exporters failed`);
  const retryable = failures.filter(
    (failure) => !(failure instanceof PermanentError) && !(failure instanceof Refusal),
  );
  if (retryable.length > 0) {
    const first = retryable.find((failure) => failure instanceof RetryableError);
    const waits = retryable.flatMap((failure) =>
      failure instanceof RetryableError && failure.retryAfterMs !== undefined
        ? [failure.retryAfterMs]
        : [],
    );
    return new RetryableError(first?.code ?? 'internal', first?.message ?? 'Exporters failed.', {
      cause,
      ...(waits.length > 0 ? { retryAfterMs: Math.max(...waits) } : {}),
    });
  }
  const permanent = failures.find((failure) => failure instanceof PermanentError);
  if (permanent === undefined) return failures[0];
  return new PermanentError(permanent.code, permanent.message, { cause });
}
