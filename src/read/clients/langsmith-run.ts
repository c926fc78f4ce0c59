import { formatInstant } from '../../model/instant.ts';
import type { Instant } from '../../model/observation.ts';
import type { PayloadTexts } from '../../store/observation-json.ts';
import { usdOf } from '../../store/observation-json.ts';
import type { StoredObservation } from '../../store/store.ts';
import { UUID, uuidOf, uuidOfRun, uuidOfTrace } from './uuid.ts';

/** The kinds of LangSmith for those of this service; any other one is a chain. */
const RUN_TYPES: Readonly<Record<string, string>> = {
  ...{ llm: 'llm', generation: 'llm', model: 'llm' },
  ...{ tool: 'tool', retriever: 'retriever', embedding: 'embedding' },
};

/**
 * An observation as LangSmith's clients read a run. Payloads are spliced in as they were sent. The clients expect objects for inputs
 * and outputs, so that any other value is a member of one.
 */
export function runJson(
  stored: StoredObservation,
  payloads: PayloadTexts,
  ancestors: readonly StoredObservation[],
): string {
  const narrow = JSON.stringify(runMembers(stored, ancestors));
  const { inputs, outputs, events, extra } = runPayloads(payloads);
  return `${narrow.slice(0, -1)},"inputs":${inputs},"outputs":${outputs},"events":${events},"extra":${extra}}`;
}

/** The members of a run that hold payloads, as JSON texts. */
export function runPayloads({ inputs, outputs, events, metadata }: PayloadTexts) {
  const whole = metadata?.startsWith('{') === true ? metadata : '{}';
  return {
    inputs: objectText(inputs, 'input') ?? '{}',
    outputs: objectText(outputs, 'output') ?? 'null',
    events: events?.startsWith('[') === true ? events : '[]',
    metadata: whole,
    extra: `{"metadata":${whole}}`,
  };
}

/** The members of a run beside its payloads. */
export function runMembers(stored: StoredObservation, ancestors: readonly StoredObservation[]) {
  const { usage, details, error } = stored;
  const cost = details?.cost;
  return {
    id: uuidOfRun(stored.id),
    trace_id: uuidOfTrace(stored.traceId),
    parent_run_id: stored.parentId === null ? null : uuidOfRun(stored.parentId),
    parent_run_ids: ancestors.map(({ id }) => uuidOfRun(id)),
    dotted_order: [...ancestors, stored].map(segmentOf).join('.'),
    session_id: uuidOf(stored.projectId),
    // Python's list_threads groups the roots by it.
    thread_id: stored.sessionId,
    name: stored.name ?? '',
    run_type: runTypeOf(stored),
    start_time: formatted(stored.startTime) ?? new Date(stored.createdAt).toISOString(),
    end_time: formatted(stored.endTime),
    status: statusOf(stored),
    // An error without an argument has an empty message.
    error: error === null ? null : error.stacktrace || error.message || error.type || '',
    tags: details?.tags ?? [],
    prompt_tokens: usage?.input_tokens ?? null,
    completion_tokens: usage?.output_tokens ?? null,
    total_tokens: usage?.total_tokens ?? null,
    prompt_cost: usdOf(cost?.input ?? null),
    completion_cost: usdOf(cost?.output ?? null),
    total_cost: usdOf(cost?.total ?? null),
    reference_example_id: exampleOf(stored),
    first_token_time: firstTokenTime(stored.startTime, details?.ttftMs),
    ...{ serialized: null, app_path: null, child_run_ids: null },
    ...{ feedback_stats: null, s3_urls: null },
  };
}

/** The type that the client sent, or the one for the kind. */
export function runTypeOf({ external, kind }: StoredObservation): string {
  return external?.run_type ?? RUN_TYPES[kind ?? ''] ?? 'chain';
}

/** The time of a first token, a number of milliseconds after a start. */
export function firstTokenTime(
  startTime: Instant | null,
  ttftMs: number | null | undefined,
): string | null {
  if (startTime === null || ttftMs === null || ttftMs === undefined) return null;
  const ns = startTime.ns + Math.round(ttftMs * 1e6);
  return formatted({ ms: startTime.ms + Math.floor(ns / 1e6), ns: ns % 1e6 });
}

/** The example of a dataset that the run evaluates. The clients read it as a UUID. */
function exampleOf({ external }: StoredObservation): string | null {
  const example = external?.reference_example_id;
  return example !== undefined && UUID.test(example) ? example : null;
}

function statusOf({ state, status }: StoredObservation): string {
  if (state === 'error') return 'error';
  if (state === 'running') return 'pending';
  return status === 'interrupted' || state === 'interrupted' ? 'interrupted' : 'success';
}

/** A time and an id: LangSmith orders the runs of a trace by the segments from its root. */
function segmentOf({ id, startTime, createdAt }: StoredObservation): string {
  const { ms, ns } = startTime ?? { ms: createdAt, ns: 0 };
  const time = new Date(ms).toISOString().replaceAll(/[-:.]|Z$/g, '');
  return `${time}${String(Math.floor(ns / 1000)).padStart(3, '0')}Z${uuidOfRun(id)}`;
}

function objectText(text: string | undefined, member: string): string | undefined {
  if (text === undefined || text === 'null') return undefined;
  return text.startsWith('{') ? text : `{"${member}":${text}}`;
}

/** Python reads at most six digits of a second. */
export function formatted(instant: Instant | null): string | null {
  if (instant === null) return null;
  return formatInstant({ ms: instant.ms, ns: Math.floor(instant.ns / 1000) * 1000 });
}
