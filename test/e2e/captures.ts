import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { Test } from 'tap';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import { type Daemon, type DaemonOptions, startDaemon } from './daemon.ts';
import { nanos } from './expectations.ts';
import {
  attributesOf,
  decodeResponse,
  decodeTraces,
  spansOf,
  type WireSpan,
  type WireTraces,
} from './otlp-messages.ts';

/**
 * Replays recorded requests of real SDKs. The daemon must accept everything, and read it back with the content
 * that a second, simple decoder finds in the same bytes.
 */
type Capture = {
  readonly file: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyText?: string;
  readonly bodyBase64?: string;
};

const folder = new URL('../fixtures/captures/', import.meta.url);
const clients = readdirSync(folder).map(
  (file) =>
    JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as {
      client: string;
      captures: Capture[];
    },
);

/** Sends all captures and compares the stored content. */
export async function readBackCaptures(t: Test, options?: DaemonOptions): Promise<void> {
  const daemon = await startDaemon(t, options);
  for (const { client, captures } of clients) {
    t.test(client, async (t) => {
      const runs = new Map<string, Run>();
      for (const capture of captures) {
        const { answer, body } = await replay(daemon, capture);
        t.ok(
          answer.status === 200 || answer.status === 202,
          `${capture.file}: ${answer.status} ${answer.body.toString().slice(0, 300)}`,
        );
        if (capture.path.includes('/runs')) {
          collectRuns(runs, capture, body);
          continue;
        }
        const traces = tracesOf(capture, body);
        const accepted = acceptable(traces);
        t.equal(rejectedSpans(answer), spansOf(traces).length - accepted.length, capture.file);
        for (const span of accepted) {
          await t.test(`${capture.file}: ${span.name}`, (t) =>
            compareSpan(t, daemon, span, resourceOf(traces, span)),
          );
        }
      }
      for (const run of runs.values()) {
        await t.test(`run ${String(run.name)}`, (t) => compareRun(t, daemon, run, runs));
      }
    });
  }
}

async function replay(
  daemon: Daemon,
  { method, path, headers, bodyText, bodyBase64 }: Capture,
): Promise<{ answer: Answer; body: Buffer }> {
  const sent =
    bodyText === undefined ? Buffer.from(bodyBase64 ?? '', 'base64') : Buffer.from(bodyText);
  const own = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value.replace(/\$\{KEY\}/, daemon.key)]),
  );
  const answer = await send(daemon.base, { method, path, headers: own, body: sent });
  return { answer, body: headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent };
}

// OpenTelemetry

function tracesOf({ headers }: Capture, body: Buffer): WireTraces {
  return headers['content-type']?.includes('json')
    ? (JSON.parse(body.toString('utf8')) as WireTraces)
    : decodeTraces(body);
}

/** The contract refuses custom fields that are not an object; everything else must be accepted. */
function acceptable(traces: WireTraces): WireSpan[] {
  return spansOf(traces).filter((span) => {
    const fields = attributesOf(span.attributes).custom_fields;
    return fields === undefined || (typeof fields === 'object' && !Array.isArray(fields));
  });
}

function rejectedSpans(answer: Answer): number {
  if (!String(answer.headers['content-type']).includes('json')) {
    return decodeResponse(answer.body).rejectedSpans;
  }
  const partial = record(json(answer)).partialSuccess;
  return partial === undefined ? 0 : Number(record(partial).rejectedSpans);
}

function resourceOf(traces: WireTraces, span: WireSpan): Record<string, unknown> {
  const resource = traces.resourceSpans?.find((one) =>
    one.scopeSpans?.some((scope) => scope.spans?.includes(span)),
  );
  return attributesOf(resource?.resource?.attributes);
}

const INPUT_KEYS = [
  'input',
  'langfuse.observation.input',
  'input.value',
  'gen_ai.prompt',
  'gen_ai.tool.call.arguments',
  'traceloop.entity.input',
  'mlflow.spanInputs',
];
const OUTPUT_KEYS = [
  'output',
  'langfuse.observation.output',
  'output.value',
  'gen_ai.output.messages',
  'gen_ai.completion',
  'gen_ai.tool.call.result',
  'traceloop.entity.output',
  'mlflow.spanOutputs',
];
const MODEL_KEYS = [
  'langfuse.observation.model.name',
  'gen_ai.response.model',
  'gen_ai.request.model',
  'llm.model_name',
  'embedding.model_name',
];
const INPUT_TOKEN_KEYS = [
  'gen_ai.usage.input_tokens',
  'gen_ai.usage.prompt_tokens',
  'llm.token_count.prompt',
];
const OUTPUT_TOKEN_KEYS = [
  'gen_ai.usage.output_tokens',
  'gen_ai.usage.completion_tokens',
  'llm.token_count.completion',
];
/** A model call may be `llm` or `generation`. */
const KINDS: Readonly<Record<string, string>> = {
  llm: 'model call',
  generation: 'model call',
  chat: 'model call',
  chat_model: 'model call',
  execute_tool: 'tool',
  invoke_agent: 'agent',
  embeddings: 'embedding',
  workflow: 'chain',
  task: 'span',
};
const KIND_KEYS = [
  'langfuse.observation.type',
  'langsmith.span.kind',
  'openinference.span.kind',
  'traceloop.span.kind',
  'mlflow.spanType',
  'gen_ai.operation.name',
];

async function compareSpan(
  t: Test,
  daemon: Daemon,
  span: WireSpan,
  resource: Record<string, unknown>,
): Promise<void> {
  const attributes = attributesOf(span.attributes);
  const id = `${span.traceId}:${span.spanId}`;
  const { found, text } = await observation(daemon, id, span.traceId);
  t.equal(found.id, id);
  t.equal(found.trace_id, span.traceId);
  t.equal(found.parent_id, span.parentSpanId ? `${span.traceId}:${span.parentSpanId}` : null);
  t.equal(found.name, span.name);
  t.equal(nanos(String(found.start_time)), BigInt(span.startTimeUnixNano ?? 0));
  t.equal(nanos(String(found.end_time)), BigInt(span.endTimeUnixNano ?? 0));
  t.equal(found.ended, true);
  t.equal(found.source, 'otlp');
  const external = record(found.external);
  t.equal(external.trace_id, span.traceId);
  t.equal(external.span_id, span.spanId);

  const codes: Readonly<Record<string, string>> = { 1: 'success', 2: 'error' };
  t.equal(found.status, codes[String(span.status?.code)] ?? 'pending');
  const exception = (span.events ?? []).find((event) => event.name === 'exception');
  if (exception !== undefined) {
    const raised = attributesOf(exception.attributes);
    const error = record(found.error);
    t.equal(error.message, raised['exception.message']);
    t.equal(error.type, raised['exception.type']);
    t.equal(error.stacktrace, raised['exception.stacktrace']);
  } else if (found.status === 'error') {
    t.ok(text.includes(JSON.stringify(span.status?.message).slice(1, -1)), 'the status message');
  }

  const kind = first(attributes, KIND_KEYS);
  if (typeof kind === 'string') t.equal(kindGroup(found.kind), kindGroup(kind.replaceAll('"', '')));
  const model = first(attributes, MODEL_KEYS);
  if (model !== undefined) t.equal(found.model, model);
  for (const [keys, name] of [
    [INPUT_TOKEN_KEYS, 'input_tokens'],
    [OUTPUT_TOKEN_KEYS, 'output_tokens'],
  ] as const) {
    const tokens = first(attributes, keys);
    if (tokens !== undefined) t.equal(record(found.usage)[name], tokens, name);
  }
  const input = first(attributes, INPUT_KEYS);
  if (input !== undefined) t.same(found.inputs, structured(input), 'inputs');
  const output = first(attributes, OUTPUT_KEYS);
  if (output !== undefined && output === attributes['traceloop.entity.output']) {
    t.same(found.outputs, JSON.parse(String(output)), 'outputs');
  } else if (output !== undefined) {
    t.same(found.outputs, structured(output), 'outputs');
  }
  if (attributes['gen_ai.input.messages'] !== undefined && input === undefined) {
    const messages = JSON.parse(String(attributes['gen_ai.input.messages'])) as unknown[];
    const read = list(found.inputs);
    t.same(read.slice(read.length - messages.length), messages, 'messages');
  }
  for (const [key, value] of Object.entries({ ...resource, ...attributes })) {
    t.ok(holds(found, text, key, value), `${key} is kept`);
  }
  t.equal(list(found.events ?? []).length, span.events?.length ?? 0, 'events');
}

/** An attribute is in the metadata under its own key, or its content is in another field. */
function holds(found: Record<string, unknown>, text: string, key: string, value: unknown): boolean {
  const metadata = record(found.metadata ?? {});
  if (key === 'langfuse.observation.usage_details') {
    const { input, output } = record(JSON.parse(String(value)));
    const usage = record(found.usage);
    return usage.input_tokens === input && usage.output_tokens === output;
  }
  if (key in metadata) {
    const kept = JSON.stringify(metadata[key]);
    return kept === JSON.stringify(value) || kept === JSON.stringify(parsed(value));
  }
  if (typeof value === 'string') {
    const quoted = JSON.stringify(value).slice(1, -1);
    return (
      text.includes(quoted) ||
      pieces(value).every((piece) => compact(text).includes(compact(piece))) ||
      String(found.kind) === value.replaceAll('"', '').toLowerCase() ||
      kindGroup(found.kind) === kindGroup(value.replaceAll('"', ''))
    );
  }
  return text.includes(JSON.stringify(value));
}

/** The value of a text with JSON, as the metadata has it where the convention says JSON. */
function parsed(value: unknown): unknown {
  try {
    return JSON.parse(String(value));
  } catch {
    return value;
  }
}

// LangSmith runs

type Run = Record<string, unknown>;

/** Creations first, then updates; an absent or null field changes nothing. */
function collectRuns(runs: Map<string, Run>, { method, path }: Capture, body: Buffer): void {
  const sent = record(JSON.parse(body.toString('utf8')));
  const pieces: Run[] = path.endsWith('/batch')
    ? [...list(sent.post ?? []), ...list(sent.patch ?? [])].map(record)
    : [
        method === 'PATCH'
          ? { ...sent, id: decodeURIComponent(path.split('/').at(-1) ?? '') }
          : sent,
      ];
  for (const piece of pieces) {
    const id = String(piece.id);
    const known = runs.get(id) ?? {};
    const isEnd = (run: Run) => run.end_time !== undefined || run.error !== undefined;
    const [under, over] = isEnd(known) && !isEnd(piece) ? [piece, known] : [known, piece];
    const present = Object.entries(over).filter(([, value]) => value !== null);
    runs.set(id, { ...under, ...Object.fromEntries(present) });
  }
}

const RUN_KINDS = ['llm', 'chain', 'tool', 'retriever', 'embedding'];

async function compareRun(
  t: Test,
  daemon: Daemon,
  run: Run,
  all: ReadonlyMap<string, Run>,
): Promise<void> {
  const id = String(run.id);
  const trace = rootOf(run, all);
  const { found } = await observation(daemon, id, trace);
  t.equal(found.name, run.name);
  t.equal(found.source, 'runs');
  const type = String(run.run_type);
  t.equal(found.kind, RUN_KINDS.includes(type) ? type : 'chain');
  t.equal(found.parent_id, run.parent_run_id ?? null);
  t.same(found.inputs, run.inputs ?? null, 'inputs');
  t.same(found.outputs, run.outputs ?? null, 'outputs');
  t.same(found.metadata, record(run.extra ?? {}).metadata ?? null, 'metadata');
  if (run.events !== undefined) t.same(found.events, run.events, 'events');
  for (const name of ['start_time', 'end_time']) {
    if (run[name] === undefined) t.equal(found[name], null, name);
    else t.equal(nanos(String(found[name])), instantOf(run[name]), name);
  }
  if (typeof run.error === 'string') {
    t.ok(String(run.error).includes(String(record(found.error).message)), 'error');
    t.equal(found.status, 'error');
  } else {
    t.equal(found.error, null);
    t.equal(found.status, run.end_time === undefined ? 'running' : 'success');
  }
  const metadata = record(record(run.extra ?? {}).metadata ?? {});
  if (typeof metadata.ls_model_name === 'string') {
    t.equal(found.model, metadata.ls_model_name);
  }
  const usage = record(run.outputs ?? {}).usage_metadata ?? metadata.usage_metadata;
  if (usage !== undefined && type === 'llm') {
    const read = record(found.usage);
    t.equal(read.input_tokens, record(usage).input_tokens);
    t.equal(read.output_tokens, record(usage).output_tokens);
  }
  const custom = metadata.custom_fields;
  if (custom !== undefined) {
    const texts = Object.entries(record(custom)).map(([key, value]) => [key, String(value)]);
    t.same(found.custom_fields, Object.fromEntries(texts));
  }
}

/** The trace as sent, else that of the parent, else the run's own id. */
function rootOf(run: Run, all: ReadonlyMap<string, Run>): string {
  if (typeof run.trace_id === 'string') return run.trace_id;
  const parent = all.get(String(run.parent_run_id));
  return parent === undefined ? String(run.id) : rootOf(parent, all);
}

function instantOf(value: unknown): bigint {
  if (typeof value === 'number') return BigInt(Math.round(value)) * 1_000_000n;
  const text = String(value);
  return nanos(/(Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}Z`);
}

// Both

async function observation(
  daemon: Daemon,
  id: string,
  trace: string,
): Promise<{ found: Record<string, unknown>; text: string }> {
  const path = `/api/v1/observations/${encodeURIComponent(id)}?trace_id=${encodeURIComponent(trace)}`;
  const answer = await eventually(
    () => daemon.call({ path }),
    ({ status }) => status === 200,
    `GET ${path}`,
  );
  return { found: record(json(answer)), text: answer.body.toString('utf8') };
}

function first(values: Record<string, unknown>, keys: readonly string[]): unknown {
  return keys.map((key) => values[key]).find((value) => value !== undefined && value !== '');
}

/** Text that is a JSON object or array reads back as that value. */
function structured(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function kindGroup(kind: unknown): string {
  const text = String(kind).toLowerCase();
  return KINDS[text] ?? text;
}

/** A list may be part of a joined list, so each element is searched for. */
function pieces(value: string): string[] {
  const parsed = structured(value);
  return Array.isArray(parsed) ? parsed.map((one) => JSON.stringify(one)) : [value];
}

function compact(text: string): string {
  return text.replaceAll(/[\s\\]/g, '');
}
