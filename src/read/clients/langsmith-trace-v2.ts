import type { PayloadTexts } from '../../store/observation-json.ts';
import { usdOf } from '../../store/observation-json.ts';
import type { StoredObservation, StoredTrace } from '../../store/store.ts';
import { firstTokenTime, formatted, runMembers, runPayloads } from './langsmith-run.ts';
import { checkSelects, selectedForm } from './langsmith-run-v2.ts';
import type { RunForm } from './run-page.ts';

/** Properties of a trace that are sums over its runs. All others are those of its root. */
const AGGREGATES: ReadonlySet<string> = new Set(['TOTAL_TOKENS', 'TOTAL_COST', 'FIRST_TOKEN_TIME']);

/** The form of `client.traces.query`. Throws a `Refusal` (400) for an unknown property. */
export function traceForm(given: readonly string[]): RunForm {
  const root = selectedForm(given.filter((one) => !AGGREGATES.has(one)));
  const selects = new Set(given);
  const isSelected = ([name]: readonly [string, unknown]) => selects.has(name.toUpperCase());
  const hasAggregates = given.some((one) => AGGREGATES.has(one));
  return {
    hasPayloads: root.hasPayloads,
    isOfTrace: true,
    text(stored, payloads, ancestors, trace) {
      const run = root.text(stored, payloads, ancestors);
      if (!hasAggregates) return `{"root_run":${run}}`;
      const sums = Object.fromEntries(Object.entries(sumsOf(trace)).filter(isSelected));
      return `{"root_run":${run},"trace_aggregates":${JSON.stringify(sums)}}`;
    },
  };
}

/** The properties of a trace of a thread. */
const THREAD_PROPERTIES: ReadonlySet<string> = new Set([
  ...['THREAD_ID', 'TRACE_ID', 'NAME', 'START_TIME', 'END_TIME', 'LATENCY', 'FIRST_TOKEN_TIME'],
  ...['PROMPT_TOKENS', 'COMPLETION_TOKENS', 'TOTAL_TOKENS', 'ERROR'],
  ...['PROMPT_COST', 'COMPLETION_COST', 'TOTAL_COST'],
  ...['INPUTS', 'OUTPUTS', 'INPUTS_PREVIEW', 'OUTPUTS_PREVIEW'],
  // No trace has the further ones here.
  ...['OP', 'TURN_NUMBER', 'ERROR_PREVIEW', 'PROMPT_TOKEN_DETAILS', 'COMPLETION_TOKEN_DETAILS'],
  ...['PROMPT_COST_DETAILS', 'COMPLETION_COST_DETAILS'],
]);

/** The form of `client.threads.list_traces`, with the sums of the trace. Throws a `Refusal` (400) for an unknown property. */
export function threadTraceForm(given: readonly string[]): RunForm {
  checkSelects(given, THREAD_PROPERTIES);
  const selects = new Set([...given, 'TRACE_ID']);
  const isSelected = ([name]: readonly [string, unknown]) => selects.has(name.toUpperCase());
  return {
    hasPayloads: selects.has('INPUTS') || selects.has('OUTPUTS'),
    isOfTrace: true,
    text(stored, payloads, _, trace) {
      const members = Object.entries(threadTraceMembers(stored, trace)).filter(isSelected);
      const parts = [
        ...members.map(([name, value]) => `"${name}":${JSON.stringify(value)}`),
        ...contentsOf(payloads)
          .filter(isSelected)
          .map(([name, text]) => `"${name}":${text}`),
      ];
      return `{${parts.join()}}`;
    },
  };
}

function threadTraceMembers(stored: StoredObservation, trace: StoredTrace | undefined) {
  const root = runMembers(stored, []);
  return {
    thread_id: trace?.sessionId ?? root.thread_id,
    ...{ trace_id: root.trace_id, name: root.name, error: root.error },
    start_time: formatted(trace?.startTime ?? null) ?? root.start_time,
    end_time: formatted(trace?.endTime ?? null) ?? root.end_time,
    latency: trace?.latencyMs == null ? null : trace.latencyMs / 1000,
    ...sumsOf(trace),
    prompt_tokens: trace?.usage?.input_tokens ?? null,
    completion_tokens: trace?.usage?.output_tokens ?? null,
    prompt_cost: usdOf(trace?.cost?.input ?? null),
    completion_cost: usdOf(trace?.cost?.output ?? null),
    inputs_preview: trace?.inputPreview ?? null,
    outputs_preview: trace?.outputPreview ?? null,
  };
}

function sumsOf(trace: StoredTrace | undefined) {
  return {
    total_tokens: trace?.usage?.total_tokens ?? null,
    total_cost: usdOf(trace?.cost?.total ?? null),
    first_token_time: trace === undefined ? null : firstTokenTime(trace.startTime, trace.ttftMs),
  };
}

function contentsOf(payloads: PayloadTexts): (readonly [string, string])[] {
  const { inputs, outputs } = runPayloads(payloads);
  return [
    ['inputs', inputs],
    ['outputs', outputs],
  ];
}
