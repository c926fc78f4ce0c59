import { Refusal, RetryableError } from '../../model/errors.ts';
import type { Query } from '../../query/query.ts';
import type { PayloadTexts } from '../../store/observation-json.ts';
import type { ObservationLine, StoredObservation } from '../../store/store.ts';
import { answerHead } from '../answer.ts';
import type { GivingWay } from '../giving-way.ts';
import { givingWay } from '../giving-way.ts';
import type { StoredRequest, StoreReading } from '../stored-request.ts';
import { ExportAnswer } from './answer.ts';
import { aboutOf } from './audit.ts';
import type { Encoder, Piece } from './encoder.ts';
import { rowEncoder } from './encoder.ts';
import { otlpLines, sourcePages } from './otlp.ts';
import { parquetFile } from './parquet.ts';
import type { ExportPosition } from './position.ts';
import type { ExportFormat, ExportRequest } from './request.ts';
import { EXPORT_PARAMETERS, exportQuery, exportRequest } from './request.ts';
import type { RowForms } from './rows.ts';
import { csvLines, jsonLines, OBSERVATION_FORMS, TRACE_FORMS } from './rows.ts';
import type { ExportStart } from './start.ts';
import { exportStart } from './start.ts';
import type { ExportStep } from './steps.ts';
import { observationPages, observationSteps, traceSteps } from './steps.ts';

/**
 * All traces or observations that match a query, in one answer of any length:
 *
 *   step: a turn at the store ─▶ rows ─▶ encoder ─▶ the client, at its pace ─▶ next step
 *
 * An answer that ends says in its trailers whether it is complete, and else from where to go on. A client whose answer
 * is cut goes on from its last complete row.
 */
export const EXPORT: StoredRequest = {
  path: '/export',
  parameters: EXPORT_PARAMETERS,
  work: exportRows,
};

async function exportRows(reading: StoreReading): Promise<void> {
  const { exchange, query, store, tenant, reads, read } = reading;
  const request = exportRequest(query);
  const way = givingWay(exchange);
  const giveBack = reads.exports.take(tenant, way.ask);
  try {
    if (request.format === 'parquet') read.hold(PARQUET_BYTES);
    const start = await exportStart(reading, request);
    const found = exportQuery(query, start.now);
    const headers = headersOf(request);
    if (answerHead(exchange, headers)) return;
    const out = new ExportAnswer(exchange, read, headers);
    const run = { reading, request, start, out, way };
    const { format, limit } = request;
    const parts = { traces: store.traces, projectId: tenant.projectId, query: found, read, limit };
    if (format === 'otlp') {
      const payloads = await reading.payloads({ kind: 'export', id: aboutOf(found) });
      const pages = sourcePages(store.traces, tenant.projectId, payloads);
      const steps = observationSteps(parts, start.position, pages);
      await write(run, steps, otlpLines(read, payloads), rowWriter(undefined));
    } else if (request.of === 'traces') {
      const steps = traceSteps(parts, start.position);
      await write(run, steps, encoderOf(format, request, TRACE_FORMS), rowWriter(undefined));
    } else if (isPlain(request) && store.traces.listLinesOf !== undefined) {
      const { listLinesOf } = store.traces;
      const steps = observationSteps(parts, start.position, (ids, page) =>
        listLinesOf(tenant.projectId, ids, page),
      );
      await write(
        run,
        steps,
        rowEncoder<ObservationLine>(() => ''),
        writeLines,
      );
    } else {
      const payloadsOf = await payloadsIn(reading, request, found);
      const pages = observationPages(store.traces, tenant.projectId);
      const steps = observationSteps(parts, start.position, pages);
      const encoder = encoderOf(format, request, OBSERVATION_FORMS);
      await write(run, steps, encoder, rowWriter(payloadsOf));
    }
  } finally {
    way.end();
    giveBack();
  }
}

/** The rows are JSON as the store may make it. */
function isPlain({ format, payloads, members }: ExportRequest): boolean {
  return format === 'jsonl' && payloads === 'false' && members === undefined;
}

/** Memory of a group of rows, and of its bytes. */
const PARQUET_BYTES = 32 * 1_048_576;

type Run = {
  readonly reading: StoreReading;
  readonly request: ExportRequest;
  readonly start: ExportStart;
  readonly out: ExportAnswer;
  readonly way: GivingWay;
};

async function write<Row>(
  run: Run,
  steps: AsyncIterable<ExportStep<Row>>,
  encoder: Encoder<Row>,
  writeStep: StepWriter<Row>,
): Promise<void> {
  const { out, start } = run;
  const progress = new Progress<Row>(start.position);
  try {
    const failed = await codeOf(run, () => writeSteps(run, steps, encoder, writeStep, progress));
    // Rows that wait in the encoder are written whether or not the store failed behind them.
    const unwritten = await codeOf(run, async () => {
      await out.add(await encoder.end());
    });
    const { rows, next } = unwritten === undefined ? progress.made : progress.sent;
    const error = failed ?? unwritten;
    out.end({ rows, next: next === null ? null : start.tokenOf(next), error });
  } finally {
    await encoder.close();
  }
}

/** The code of an error of the store that ends an answer which has begun; undefined if there is none. */
async function codeOf(
  { reading: { read }, out }: Run,
  work: () => Promise<void>,
): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    const isExpected = error instanceof RetryableError || error instanceof Refusal;
    if (!isExpected || !out.hasBegun || read.signal.aborted) throw error;
    return error.code;
  }
}

type PayloadsOf<Row> = (row: Row) => Promise<PayloadTexts>;

/** A number of rows, and the position behind the last one. */
type Written = { readonly rows: number; readonly next: ExportPosition | null };

/** The rows that the encoder has, those that the answer has, and where the export goes on behind them. */
class Progress<Row> {
  rows = 0;
  readonly #start: ExportPosition;
  #step: ExportStep<Row> | undefined;
  #row = -1;
  #sent: { rows: number; step: ExportStep<Row> | undefined; row: number } = {
    ...{ rows: 0, step: undefined, row: -1 },
  };

  constructor(start: ExportPosition) {
    this.#start = start;
  }

  /** A piece of the answer has every row before the one that follows. */
  flushed(): void {
    this.#sent = { rows: this.rows, step: this.#step, row: this.#row };
  }

  wrote(step: ExportStep<Row>, row: number): void {
    this.rows++;
    this.#step = step;
    this.#row = row;
  }

  passed(step: ExportStep<Row>): void {
    this.#step = step;
    this.#row = step.rows.length - 1;
  }

  get made(): Written {
    return { rows: this.rows, next: this.#behind(this.#step, this.#row) };
  }

  get sent(): Written {
    const { rows, step, row } = this.#sent;
    return { rows, next: this.#behind(step, row) };
  }

  #behind(step: ExportStep<Row> | undefined, row: number): ExportPosition | null {
    if (step === undefined) return this.#start;
    return row === step.rows.length - 1 ? step.next : step.after(row);
  }
}

/** Resolves at the end of the rows, or of the part that the client asked for. */
async function writeSteps<Row>(
  run: Run,
  steps: AsyncIterable<ExportStep<Row>>,
  encoder: Encoder<Row>,
  writeStep: StepWriter<Row>,
  progress: Progress<Row>,
): Promise<void> {
  const { reading, out, way } = run;
  await out.add(encoder.begin());
  for await (const step of steps) {
    if (await writeStep(run, step, encoder, progress)) return;
    progress.passed(step);
    if (reading.exchange.stopping() || way.isAsked) return;
  }
}

/** Writes the rows of a step; resolves with whether the answer has all that the client asked for. */
type StepWriter<Row> = (
  run: Run,
  step: ExportStep<Row>,
  encoder: Encoder<Row>,
  progress: Progress<Row>,
) => Promise<boolean>;

function rowWriter<Row>(payloadsOf: PayloadsOf<Row> | undefined): StepWriter<Row> {
  return async ({ request, out, way }, step, encoder, progress) => {
    for (const [i, row] of step.rows.entries()) {
      const texts = payloadsOf === undefined ? undefined : await payloadsOf(row);
      const made = encoder.row(row, texts);
      const piece = isPiece(made) ? made : await made;
      const sent = out.add(piece);
      if (encoder.waiting > 0 && piece.length > 0) progress.flushed();
      progress.wrote(step, i);
      // Hot path: most rows wait for nothing.
      if (sent !== undefined) await sent;
      const isFull = out.bytes + encoder.waiting >= request.maxBytes;
      if (isFull || progress.rows === request.limit || way.isAsked) return true;
    }
    return false;
  };
}

/** Lines that the store made are sent as they are, all of a step at once. */
const writeLines: StepWriter<ObservationLine> = async ({ request, out }, step, _, progress) => {
  const { rows, text = NO_BYTES } = step;
  let end = 0;
  let isFull = false;
  for (let i = 0; i < rows.length && !isFull; i++) {
    end = rows[i]?.end ?? end;
    progress.wrote(step, i);
    isFull = out.bytes + end >= request.maxBytes || progress.rows === request.limit;
  }
  await out.add(text.subarray(0, end));
  return isFull;
};

const NO_BYTES = new Uint8Array(0);

function isPiece(made: Piece | Promise<Piece>): made is Piece {
  return typeof made === 'string' || made instanceof Uint8Array;
}

/** Payloads are cut out of batches, which a turn at the store loads. */
async function payloadsIn(
  { payloads, read }: StoreReading,
  request: ExportRequest,
  query: Query,
): Promise<PayloadsOf<StoredObservation> | undefined> {
  if (request.payloads === 'false') return undefined;
  const reader = await payloads({ kind: 'export', id: aboutOf(query) });
  return (row) => read.turn(() => reader.read(row));
}

function encoderOf<Row>(
  format: Exclude<ExportFormat, 'otlp'>,
  request: ExportRequest,
  forms: RowForms<Row>,
): Encoder<Row> {
  switch (format) {
    case 'jsonl':
      return jsonLines(forms, request);
    case 'csv':
      return csvLines(forms, request);
    case 'parquet':
      return parquetFile(request.columns, forms.members);
  }
}

const MEDIA: Readonly<Record<ExportFormat, string>> = {
  jsonl: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
  otlp: 'application/x-ndjson',
};

/** The end of the file's name, where it is not the format. */
const EXTENSIONS: Partial<Record<ExportFormat, string>> = { otlp: 'otlp.jsonl' };

function headersOf({ format, of }: ExportRequest): Readonly<Record<string, string>> {
  return {
    'content-type': MEDIA[format],
    'content-disposition': `attachment; filename="${of}.${EXTENSIONS[format] ?? format}"`,
    'x-content-type-options': 'nosniff',
  };
}
