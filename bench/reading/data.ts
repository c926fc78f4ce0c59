import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { WireAttribute, WireSpan, WireTraces } from '../../test/e2e/otlp-messages.ts';

/**
 * The data of the reading benchmark: traces of ten spans as an agent's run has them, made from a number, so that a run can be
 * repeated. A printed line says how.
 */
export const ABOUT =
  'OTLP/JSON with gzip, 10 traces of 10 spans a body, start times evenly over the last 30 days. A trace: an agent, 4 model calls, ' +
  '3 tools, a retriever and a chain; about 1.5 KB a span with its messages. 20 names of traces, 8 models of 3 providers, ' +
  '12 tools, 2,000 users and 20,000 sessions (both skewed: a tenth of them has half of the traces), 3 environments, ' +
  '10 releases, 40 tags, one custom field with 50 values, 5 % of traces with a failed span, tokens and latencies of log-normal size. ' +
  'There is also one trace of 10,000 spans.';

const SPANS = 10;
const TRACES_A_BODY = 10;
export const SPANS_A_BODY = SPANS * TRACES_A_BODY;
export const DAYS = 30;
export const DAY_MS = 86_400_000;

export const NAMES = {
  traces: numbered('workflow', 20),
  tools: numbered('tool', 12),
  users: numbered('user', 2_000),
  sessions: numbered('session', 20_000),
};
const MODELS = [
  ['openai', 'gpt-4o'],
  ['openai', 'gpt-4o-mini'],
  ['openai', 'gpt-4.1'],
  ['anthropic', 'claude-sonnet-4-5'],
  ['anthropic', 'claude-haiku-4-5'],
  ['google', 'gemini-2.5-pro'],
  ['google', 'gemini-2.5-flash'],
  ['openai', 'o3-mini'],
] as const;

/** Numbers between 0 and 1 by a seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Headers of a request with a body of `bodyOf`. */
export const BODY_HEADERS = { 'content-type': 'application/json', 'content-encoding': 'gzip' };

/** A request body. `share`: its place in all data, 0 to 1, which is its place in time. */
export function bodyOf(number: number, share: number, now: number): Buffer {
  return gzipSync(JSON.stringify(requestOf(number, share, now)), { level: 1 });
}

/** The content of a request body; `length` multiplies the length of its texts. */
export function requestOf(number: number, share: number, now: number, length = 1): WireTraces {
  const next = random(number + 1);
  const start = now - DAYS * DAY_MS + share * DAYS * DAY_MS;
  const traces = Array.from({ length: TRACES_A_BODY }, (_, i) =>
    traceSpans(next, `${number}/${i}`, start + i * 1000, length),
  );
  return request(traces.flat());
}

/** The id of the last trace of a body. */
export function lastTraceOf(number: number): string {
  return hex(`${number}/${TRACES_A_BODY - 1}`, 32);
}

/** The bodies of one trace with many spans. */
export function largeTrace(spans: number, now: number): { id: string; bodies: Buffer[] } {
  const id = hex('large', 32);
  const root = span({ id, name: 'large', at: now - DAY_MS, ms: spans, key: 'large/0' });
  const children = Array.from({ length: spans - 1 }, (_, i) =>
    span({
      ...{ id, name: `step ${i % 50}`, at: now - DAY_MS + i, ms: 5, key: `large/${i + 1}` },
      parent: hex(`large/${Math.floor(i / 4)}`, 16),
    }),
  );
  const all = [root, ...children];
  const bodies: Buffer[] = [];
  for (let at = 0; at < all.length; at += 500) {
    bodies.push(gzipSync(JSON.stringify(request(all.slice(at, at + 500)))));
  }
  return { id, bodies };
}

function traceSpans(next: () => number, key: string, at: number, length: number): WireSpan[] {
  const text = (usual: number) => prose(next, usual * length);
  const id = hex(key, 32);
  const fails = next() < 0.05;
  const ms = latency(next);
  const root = {
    'openinference.span.kind': 'AGENT',
    'user.id': skewed(next, NAMES.users),
    'session.id': skewed(next, NAMES.sessions),
    'deployment.environment.name': pick(next, ['production', 'production', 'staging', 'dev']),
    'langfuse.release': `2026.${Math.floor(next() * 10)}`,
    'langfuse.trace.tags': [`tag-${Math.floor(next() * 40)}`],
    'custom.tenant': `tenant-${Math.floor(next() * 50)}`,
    'input.value': text(120),
    'output.value': text(200),
  };
  const parent = hex(`${key}:0`, 16);
  const child = (n: number, name: string, more: object, isFailed = false) =>
    span({
      ...{ id, name, at: at + n * 40, ms: ms / 8, key: `${key}:${n}`, parent, more, isFailed },
    });
  const spans = [
    span({ id, name: skewed(next, NAMES.traces), at, ms, key: `${key}:0`, more: root }),
  ];
  for (let n = 1; n <= 4; n++) {
    const [provider, model] = skewed(next, MODELS);
    const more = {
      ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': provider },
      ...{ 'gen_ai.request.model': model, 'gen_ai.usage.input_tokens': tokens(next, 900) },
      'gen_ai.usage.output_tokens': tokens(next, 180),
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', content: text(900) }]),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', content: text(400) }]),
    };
    spans.push(child(n, `chat ${model}`, more, fails && n === 4));
  }
  for (let n = 5; n <= 7; n++) {
    const tool = skewed(next, NAMES.tools);
    const more = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': tool };
    spans.push(child(n, tool, { ...more, 'output.value': text(500) }));
  }
  spans.push(child(8, 'search', { 'openinference.span.kind': 'RETRIEVER' }));
  spans.push(child(9, 'plan', { 'openinference.span.kind': 'CHAIN' }));
  return spans;
}

type Span = {
  readonly id: string;
  readonly name: string;
  readonly at: number;
  readonly ms: number;
  readonly key: string;
  readonly parent?: string;
  readonly more?: object;
  readonly isFailed?: boolean;
};

function span({ id, name, at, ms, key, parent, more = {}, isFailed = false }: Span): WireSpan {
  return {
    traceId: id,
    spanId: hex(key, 16),
    ...(parent === undefined ? {} : { parentSpanId: parent }),
    name,
    startTimeUnixNano: nanos(at),
    endTimeUnixNano: nanos(at + ms),
    attributes: Object.entries(more).map(([name, value]) => ({
      key: name,
      value: wireValue(value),
    })),
    status: isFailed ? { code: 2, message: 'the model did not answer in time' } : { code: 1 },
  };
}

function wireValue(value: unknown): NonNullable<WireAttribute['value']> {
  if (typeof value === 'number') return { intValue: String(value) };
  if (Array.isArray(value)) return { arrayValue: { values: value.map(wireValue) } };
  return { stringValue: String(value) };
}

function request(spans: WireSpan[]): WireTraces {
  const resource = { attributes: [{ key: 'service.name', value: { stringValue: 'bench' } }] };
  const scopeSpans = [{ scope: { name: 'bench.instrumentation', version: '1' }, spans }];
  return { resourceSpans: [{ resource, scopeSpans }] };
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i}`);
}

function pick<T>(next: () => number, values: readonly T[]): T {
  return values[Math.floor(next() * values.length)] as T;
}

/** Half of the picks are among the first tenth. */
function skewed<T>(next: () => number, values: readonly T[]): T {
  const share = next() < 0.5 ? next() * 0.1 : next();
  return values[Math.floor(share * values.length)] as T;
}

function latency(next: () => number): number {
  return Math.min(120_000, Math.exp(7 + normal(next)));
}

function tokens(next: () => number, usual: number): number {
  return Math.ceil(usual * Math.exp(normal(next) / 2));
}

function normal(next: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}

function nanos(ms: number): string {
  return `${Math.floor(ms)}${String(Math.floor((ms % 1) * 1e6)).padStart(6, '0')}`;
}

function hex(text: string, digits: number): string {
  return createHash('sha1').update(text).digest('hex').slice(0, digits);
}

const WORDS =
  'the model reads a request and answers with the steps of a plan that the tools carry out one after another until all data are found in ' +
  'the index of documents about orders customers refunds invoices shipping prices contracts and their history';
const WORD_LIST = WORDS.split(' ');

function prose(next: () => number, length: number): string {
  let text = '';
  while (text.length < length) text += `${pick(next, WORD_LIST)} `;
  return text;
}
