import type { Tree } from './daemon.ts';
import {
  CUSTOM_KEYS,
  CUSTOM_VALUES,
  type Draw,
  drawnStart,
  ENVIRONMENTS,
  iso,
  KINDS,
  MODELS,
  NAMES,
  PROVIDERS,
  RELEASES,
  SCORES,
  SESSIONS,
  STATUSES,
  TAGS,
  TOOLS,
  USERS,
} from './drawn-values.ts';

export type Sent = { readonly path: string; readonly body: Tree };

/** More observations than a write summarizes, so that the store summarizes the trace in the background. */
const LARGE = 520;
const RUN_TYPES = ['llm', 'chain', 'tool', 'retriever', 'embedding', 'prompt', 'parser'];

/** Traces of the three formats, with late, repeated and contradicting items. */
export class DrawnTraces {
  /** Of every drawn trace, in the order of drawing. */
  readonly ids: string[] = [];
  readonly #draw: Draw;
  readonly #now: number;

  /** Drawn times are before `now`. */
  constructor(draw: Draw, now: number) {
    this.#draw = draw;
    this.#now = now;
  }

  /**
   * The requests of so many traces and of a last one, which is stored under its id. Those of one trace keep their order, with requests
   * of other traces between them.
   */
  requests(traces: number): Sent[] {
    const draw = this.#draw;
    const makers = [() => this.#native(), () => this.#runs(), () => this.#otlp()];
    let left = draw.times(traces, () => draw.one(makers)());
    const sent: Sent[] = [];
    while (left.length > 0) {
      const next = draw.one(left).shift();
      if (next !== undefined) sent.push(next);
      left = left.filter((requests) => requests.length > 0);
    }
    return [...sent, ...draw.times(3, () => draw.one(sent)), ...this.#native()];
  }

  scores(count: number): Sent[] {
    const draw = this.#draw;
    return draw.times(count, () => ({
      path: `/api/v1/traces/${encodeURIComponent(draw.one(this.ids))}/scores`,
      body: {
        id: `score-${draw.below(40)}`,
        name: draw.one(SCORES),
        value: draw.one([0, 0.5, 1, 'good', 'bad', true, false]),
      },
    }));
  }

  /** A new trace. */
  #trace(id: string): string {
    this.ids.push(id);
    return id;
  }

  /** A trace that was drawn before the newest one. */
  #earlier(): string | undefined {
    return this.#draw.maybe(this.ids.slice(0, -1));
  }

  #native(): Sent[] {
    const draw = this.#draw;
    const trace = this.#trace(draw.chance(70) ? draw.uuid() : `trace ${this.ids.length}`);
    const start = drawnStart(draw, this.#now);
    const owner = { session_id: draw.one(SESSIONS), user_id: draw.one(USERS) };
    const ids: string[] = [];
    const events: Tree[] = [];
    for (let left = 1 + draw.below(7); left > 0; left -= 1) {
      const begin = start + draw.below(5_000);
      const first = this.#started(trace, ids, begin, owner);
      events.push(first);
      if (draw.chance(75)) events.push(this.#finished(first, begin));
    }
    // A cycle: the root has a descendant as its parent.
    if (draw.chance(15)) Object.assign(draw.one(events), { parent_id: draw.one(ids) });
    if (draw.chance(10)) events.push(...this.#many(trace, ids, start));
    const other = this.#earlier();
    if (other !== undefined && draw.chance(15)) {
      const again = { observation_id: draw.one(ids), trace_id: other, start_time: iso(start) };
      events.push({ ...this.#named(), ...again });
    }
    if (draw.chance(30)) events.reverse();
    const sent: Sent[] = [];
    while (events.length > 0) {
      const batch = events.splice(0, events.length > 100 ? 200 : 1 + draw.below(6));
      sent.push({ path: '/api/v1/observations/batch', body: { events: batch } });
    }
    return sent;
  }

  #named(): Tree {
    const draw = this.#draw;
    return {
      operation: 'start',
      kind: draw.one(KINDS),
      name: draw.one(NAMES),
      status: draw.one(STATUSES),
    };
  }

  /** A first event, which one in ten times has no start. */
  #started(trace: string, ids: string[], begin: number, owner: Tree): Tree {
    const draw = this.#draw;
    const id = draw.uuid();
    const event: Tree = { observation_id: id, trace_id: trace, ...this.#named() };
    if (ids.length > 0 && draw.chance(80)) {
      event.parent_id = draw.chance(90) ? draw.one(ids) : draw.uuid();
    }
    if (draw.chance(90)) event.start_time = iso(begin);
    if (draw.chance(50)) event.inputs = this.#payload();
    if (draw.chance(40)) event.custom_fields = this.#customFields();
    if (draw.chance(40)) event.model = draw.one(MODELS);
    if (draw.chance(30)) event.usage = this.#usage();
    if (draw.chance(40)) event.metadata = this.#metadata(owner);
    if (draw.chance(10)) event.event_version = String(draw.below(3));
    ids.push(id);
    return event;
  }

  #finished({ observation_id, trace_id, kind }: Tree, begin: number): Tree {
    const draw = this.#draw;
    const end = begin + (draw.chance(90) ? draw.below(20_000) : -draw.below(3_000));
    const event: Tree = {
      ...{ observation_id, trace_id, operation: draw.chance(80) ? 'finish' : 'error' },
      ...{ kind: draw.chance(90) ? kind : draw.one(KINDS), status: draw.one(STATUSES) },
      end_time: iso(end),
    };
    if (draw.chance(40)) event.usage = this.#usage();
    if (draw.chance(50)) event.outputs = this.#payload();
    if (draw.chance(20)) event.model = draw.one(MODELS);
    if (draw.chance(20)) event.name = draw.one(NAMES);
    if (draw.chance(10)) event.event_version = String(draw.below(3));
    if (draw.chance(10)) event.custom_fields = this.#customFields();
    return event;
  }

  #many(trace: string, ids: readonly string[], start: number): Tree[] {
    const draw = this.#draw;
    return draw.times(LARGE, (index) => ({
      ...{ observation_id: draw.uuid(), trace_id: trace, parent_id: draw.one(ids) },
      ...this.#named(),
      ...{ start_time: iso(start + index), model: draw.one(MODELS), usage: this.#usage() },
    }));
  }

  #metadata(owner: Tree): Tree {
    const draw = this.#draw;
    const metadata: Tree = {};
    for (const [key, value] of Object.entries(owner)) if (draw.chance(35)) metadata[key] = value;
    if (draw.chance(30)) metadata.environment = draw.one(ENVIRONMENTS);
    if (draw.chance(30)) metadata.tags = [draw.one(TAGS), draw.one(TAGS)];
    return metadata;
  }

  #customFields(): Tree {
    const draw = this.#draw;
    const fields = draw.times(draw.below(4), () => [
      draw.one(CUSTOM_KEYS),
      draw.one(CUSTOM_VALUES),
    ]);
    return Object.fromEntries(fields);
  }

  #usage(): Tree {
    const draw = this.#draw;
    return draw.one<Tree>([
      { input_tokens: draw.below(5_000), output_tokens: draw.below(2_000) },
      { input_tokens: draw.below(10) },
      { input_tokens: 0, output_tokens: 0 },
      { input_tokens: 2 ** 31, output_tokens: 1 },
    ]);
  }

  #payload(): unknown {
    const draw = this.#draw;
    return draw.one<unknown>([
      ...['hello world', '', 'x'.repeat(600), [1, 'two', null], null],
      { question: draw.one(NAMES), n: draw.below(10) },
      { messages: [{ role: 'user', content: 'refund please' }] },
    ]);
  }

  #runs(): Sent[] {
    const draw = this.#draw;
    const trace = this.#trace(draw.uuid());
    const start = drawnStart(draw, this.#now);
    const session = draw.chance(50) ? { session_id: draw.one(SESSIONS) } : {};
    const post: Tree[] = [];
    const patch: Tree[] = [];
    for (let left = 1 + draw.below(6); left > 0; left -= 1) {
      const begin = start + draw.below(3_000);
      const run = this.#run(trace, post, begin, session);
      post.push(run);
      if (draw.chance(80)) patch.push(this.#ended({ id: run.id, trace_id: trace }, begin));
    }
    this.#contradict(post);
    for (const runs of [post, patch]) {
      if (draw.chance(15)) for (const run of runs) if (draw.chance(50)) delete run.trace_id;
    }
    const path = '/api/v1/runs/batch';
    if (draw.chance(50)) return [{ path, body: { post, patch } }];
    const sent: Sent[] = [{ path, body: { post } }];
    if (patch.length > 0) sent.push({ path, body: { patch } });
    return draw.chance(20) ? sent.reverse() : sent;
  }

  #run(trace: string, earlier: readonly Tree[], begin: number, session: Tree): Tree {
    const draw = this.#draw;
    const run: Tree = {
      ...{ id: earlier.length === 0 ? trace : draw.uuid(), trace_id: trace },
      ...{ name: draw.one(NAMES), run_type: draw.one(RUN_TYPES) },
      start_time: draw.chance(50) ? iso(begin) : begin,
    };
    if (earlier.length > 0) run.parent_run_id = draw.chance(60) ? trace : draw.one(earlier).id;
    if (draw.chance(70)) run.inputs = { input: this.#payload() };
    if (draw.chance(40)) run.tags = draw.times(3, () => draw.one(TAGS));
    const model = { ls_model_name: draw.one(MODELS), ls_provider: draw.one(PROVIDERS) };
    const metadata = {
      ...session,
      ...(draw.chance(50) ? { user_id: draw.one(USERS) } : {}),
      ...(draw.chance(50) ? model : {}),
      ...this.#customFields(),
    };
    run.extra = { metadata };
    return run;
  }

  #ended(run: Tree, begin: number): Tree {
    const draw = this.#draw;
    const last: Tree = { ...run, end_time: iso(begin + draw.below(30_000)) };
    const usage = {
      ...{ input_tokens: draw.below(900), output_tokens: draw.below(900), total_tokens: 1_800 },
      input_token_details: { cache_read: draw.below(100) },
    };
    const counted = draw.chance(50) ? { usage_metadata: usage } : {};
    if (draw.chance(60)) last.outputs = { output: this.#payload(), ...counted };
    if (draw.chance(20)) last.error = draw.one(['ValueError: no', 'boom', 'TimeoutError: x']);
    return last;
  }

  /** Puts a run into another trace, or gives it more tags or metadata than are kept. */
  #contradict(post: readonly Tree[]): void {
    const draw = this.#draw;
    const other = this.#earlier();
    if (other !== undefined && draw.chance(20)) draw.one(post).trace_id = other;
    if (draw.chance(15)) draw.one(post).tags = draw.times(40, (index) => `many${index}`);
    if (draw.chance(15)) {
      const fields = draw.times(40, (index) => [`k${index}`, `v${index}`]);
      draw.one(post).extra = { metadata: Object.fromEntries(fields) };
    }
  }

  #otlp(): Sent[] {
    const draw = this.#draw;
    const trace = this.#trace(draw.hex(32));
    const start = drawnStart(draw, this.#now);
    const spans: Tree[] = [];
    for (let left = 1 + draw.below(8); left > 0; left -= 1) {
      spans.push(this.#span(trace, spans, start + draw.below(4_000)));
    }
    const attributes = [attribute('service.name', 'svc')];
    if (draw.chance(50))
      attributes.push(attribute('deployment.environment', draw.one(ENVIRONMENTS)));
    if (draw.chance(50)) attributes.push(attribute('service.version', draw.one(RELEASES)));
    if (draw.chance(30)) spans.reverse();
    const sent: Sent[] = [];
    while (spans.length > 0) {
      const scopeSpans = [{ scope: { name: 'scope' }, spans: spans.splice(0, 1 + draw.below(8)) }];
      sent.push({
        path: '/v1/traces',
        body: { resourceSpans: [{ resource: { attributes }, scopeSpans }] },
      });
    }
    return sent;
  }

  #span(trace: string, earlier: readonly Tree[], startMs: number): Tree {
    const draw = this.#draw;
    const begin = BigInt(startMs) * 1_000_000n + BigInt(draw.below(1_000_000));
    const length = BigInt(draw.below(10_000_000)) * BigInt(1 + draw.below(3_000));
    const span: Tree = {
      ...{ traceId: trace, spanId: draw.hex(16), name: draw.one(NAMES) || 'n' },
      ...{ kind: 1 + draw.below(5), attributes: this.#attributes() },
      ...{ startTimeUnixNano: `${begin}`, endTimeUnixNano: `${begin + length}` },
      status: draw.one<Tree>([{}, { code: 1 }, { code: 2, message: 'bad' }]),
    };
    if (earlier.length > 0 && draw.chance(85)) {
      span.parentSpanId = draw.chance(92) ? draw.one(earlier).spanId : draw.hex(16);
    }
    if (draw.chance(15)) {
      const attributes = [
        attribute('exception.type', 'KeyError'),
        attribute('exception.message', 'no key'),
      ];
      span.events = [{ name: 'exception', timeUnixNano: `${begin}`, attributes }];
    }
    return span;
  }

  #attributes(): Tree[] {
    const draw = this.#draw;
    const drawn: readonly (readonly [number, string, () => number | string | readonly string[]])[] =
      [
        [40, 'gen_ai.operation.name', () => draw.one(['chat', 'execute_tool', 'embeddings'])],
        [40, 'gen_ai.request.model', () => draw.one(MODELS)],
        [40, 'gen_ai.usage.input_tokens', () => draw.below(4_000)],
        [40, 'gen_ai.usage.output_tokens', () => draw.below(4_000)],
        [20, 'gen_ai.usage.cache_read.input_tokens', () => draw.below(100)],
        [20, 'gen_ai.tool.name', () => draw.one(TOOLS)],
        [30, 'openinference.span.kind', () => draw.one(['LLM', 'TOOL', 'CHAIN', 'AGENT'])],
        [30, 'session.id', () => draw.one(SESSIONS)],
        [30, 'user.id', () => draw.one(USERS)],
        [20, 'langfuse.trace.tags', () => [draw.one(TAGS), draw.one(TAGS)]],
        [20, 'gen_ai.usage.cost', () => draw.below(1_000) / 1_000],
        [20, 'gen_ai.provider.name', () => draw.one(PROVIDERS)],
        [20, 'input.value', () => JSON.stringify(this.#payload())],
        [10, 'langfuse.prompt.name', () => draw.one(NAMES)],
        [15, 'error.type', () => draw.one(['TimeoutError', 'E2'])],
      ];
    return drawn.flatMap(([percent, key, value]) =>
      draw.chance(percent) ? [attribute(key, value())] : [],
    );
  }
}

/** In the JSON of OTLP. */
function attribute(key: string, value: number | string | readonly string[]): Tree {
  if (typeof value === 'string') return { key, value: { stringValue: value } };
  if (typeof value === 'number') {
    const isWhole = Number.isInteger(value);
    return { key, value: isWhole ? { intValue: `${value}` } : { doubleValue: value } };
  }
  return { key, value: { arrayValue: { values: value.map((text) => ({ stringValue: text })) } } };
}
