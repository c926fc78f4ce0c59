import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { attributesOf, encodeRequest } from '../helper/otlp-proto.ts';
import { startOtlpServer } from '../helper/otlp-server.ts';
import { type Hay, haysOf, haysOfDirectory, NeedleSearch } from './canaries.ts';
import { type Answer, eventually } from './client.ts';
import { redisValues, sql, startCluster } from './cluster.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';
import { treeAt } from './shipped.ts';

/**
 * Sends unique texts in every field of every format, erases the traces of a user, and searches every file, table and value for what
 * was erased. Each request also has items of another trace, which stay readable.
 */
t.setTimeout(300_000);

/** The texts of an item, each of which occurs in one field only. */
class Texts {
  readonly made: string[] = [];
  readonly #kind: string;

  constructor(kind: string) {
    this.#kind = kind;
  }

  next(): string {
    const text = `${this.#kind}-${randomBytes(9).toString('hex')}`;
    this.made.push(text);
    return text;
  }
}

type Sent = {
  readonly path: string;
  readonly type: string;
  readonly body: Buffer;
};

/** Everything that is sent, and the texts of the erased and of the other traces. */
class Sending {
  readonly user = `gone-user-${randomBytes(6).toString('hex')}`;
  readonly gone = new Texts('gone');
  readonly kept = new Texts('kept');
  readonly keptTraces: string[] = [];
  /** Texts of outputs, which only the search in payloads finds. */
  readonly outputs = { gone: [] as string[], kept: [] as string[] };
  readonly requests: Sent[] = [];
  /** The pairs of traces. */
  pairs = 0;

  constructor() {
    this.gone.made.push(this.user);
    for (let round = 0; round < 2; round++) {
      this.#native(round);
      this.#runs(round);
      this.#spans(round, 'application/json');
      this.#spans(round, 'application/x-protobuf');
    }
  }

  #fields(texts: Texts): Record<string, unknown> {
    const text = () => texts.next();
    const outputs = text();
    this.outputs[texts === this.gone ? 'gone' : 'kept'].push(outputs);
    return {
      name: text(),
      inputs: { prompt: text(), deep: [[{ a: text() }]] },
      outputs,
      events: [{ name: text(), attributes: { a: text() } }],
      error: { message: text(), type: text(), stacktrace: text() },
      something: text(),
    };
  }

  /** A trace that is erased and one that stays. */
  #pair(): readonly { texts: Texts; user: string; trace: string }[] {
    const trace = this.kept.next();
    this.keptTraces.push(trace);
    this.pairs++;
    return [
      { texts: this.gone, user: this.user, trace: this.gone.next() },
      { texts: this.kept, user: this.kept.next(), trace },
    ];
  }

  #native(round: number): void {
    const events = this.#pair().flatMap(({ texts, user, trace }) =>
      [0, 1].map((i) => ({
        ...{ id: texts.next(), trace_id: trace, operation: 'finish', kind: 'llm', status: 'error' },
        ...this.#fields(texts),
        ...{ session_id: texts.next(), user_id: i === 0 ? user : null },
        metadata: { note: texts.next(), user_id: user, custom_fields: { note: texts.next() } },
      })),
    );
    this.#add('/api/v1/observations/batch', 'application/json', round, JSON.stringify({ events }));
  }

  #runs(round: number): void {
    const copies: object[] = [];
    const runs = this.#pair().flatMap(({ texts, user, trace }) => {
      const parent = texts.next();
      const run = () => {
        const { error, events, ...fields } = this.#fields(texts);
        copies.push(this.#copy(texts, fields.name));
        return {
          ...{ run_type: 'llm', start_time: '2026-01-15T11:59:58.000Z', ...fields },
          ...{ error: Object.values(error as object).join('\n'), tags: [texts.next()] },
          ...{ extra: { metadata: { note: texts.next(), user_id: user, ...BOTH_PATHS } }, events },
        };
      };
      return [
        { id: parent, trace_id: trace, ...run() },
        // Without a trace: the run's place is that of its parent.
        { id: texts.next(), parent_run_id: parent, ...run() },
      ];
    });
    const body = JSON.stringify({ post: runs, patch: [] });
    this.#add('/api/v1/runs/batch', 'application/json', round, body);
    const otlp = {
      resourceSpans: [{ scopeSpans: [{ scope: { name: 'langsmith' }, spans: copies }] }],
    };
    this.#add('/api/v1/otel/v1/traces', 'application/json', round, JSON.stringify(otlp));
  }

  /** The span that the client sends beside a run: only its run says whose it is. */
  #copy(texts: Texts, name: unknown): object {
    const traceId = randomBytes(16).toString('hex');
    if (texts === this.gone) this.gone.made.push(traceId);
    const attributes = Object.entries(BOTH_PATHS).map(([key, value]) => [
      `langsmith.metadata.${key}`,
      value,
    ]);
    return {
      ...{ traceId, spanId: randomBytes(8).toString('hex'), name },
      ...{ startTimeUnixNano: '1768478397999999907', endTimeUnixNano: '1768478399000000000' },
      attributes: attributesOf({
        ...Object.fromEntries(attributes),
        'gen_ai.prompt': texts.next(),
        'gen_ai.completion': texts.next(),
      }),
    };
  }

  #spans(round: number, type: string): void {
    this.pairs++;
    const ids = { gone: randomBytes(16).toString('hex'), kept: randomBytes(16).toString('hex') };
    this.gone.made.push(ids.gone);
    this.keptTraces.push(ids.kept);
    const span = (texts: Texts, i: number): object => ({
      traceId: texts === this.gone ? ids.gone : ids.kept,
      spanId: `0${i}`.repeat(8),
      name: texts.next(),
      startTimeUnixNano: '1768478398000000000',
      endTimeUnixNano: '1768478399000000000',
      attributes: attributesOf({
        'user.id': texts === this.gone ? this.user : texts.next(),
        'session.id': texts.next(),
        'gen_ai.request.model': texts.next(),
        'gen_ai.input.messages': JSON.stringify([{ role: 'user', content: texts.next() }]),
        'input.value': texts.next(),
        'output.value': texts.next(),
        'app.list': [texts.next()],
      }),
      events: [{ name: texts.next(), attributes: attributesOf({ body: texts.next() }) }],
      status: { code: 2, message: texts.next() },
    });
    const resource = (texts: Texts, scopes: object[]): object => ({
      resource: { attributes: attributesOf({ 'service.name': texts.next() }) },
      scopeSpans: scopes,
    });
    const scope = (texts: Texts, spans: object[]): object => ({
      scope: { name: texts.next(), attributes: attributesOf({ note: texts.next() }) },
      spans,
    });
    const request = {
      resourceSpans: [
        resource(this.gone, [scope(this.gone, [span(this.gone, 1)])]),
        resource(this.kept, [
          scope(this.kept, [span(this.kept, 2), span(this.gone, 3), span(this.kept, 4)]),
          scope(this.gone, [span(this.gone, 5)]),
        ]),
      ],
    };
    const isJson = type === 'application/json';
    const body = isJson ? JSON.stringify(request) : encodeRequest(request);
    this.#add('/api/public/otel/v1/traces', type, round, body);
  }

  #add(path: string, type: string, round: number, body: string | Buffer): void {
    const bytes = Buffer.from(body);
    this.requests.push({ path, type, body: round === 0 ? bytes : gzipSync(bytes) });
  }
}

/** The variable that the Python client of LangSmith records in runs that it sends as spans too. */
const BOTH_PATHS = { LANGSMITH_OTEL_ENABLED: 'true' };

type Call = (request: {
  path: string;
  headers?: Record<string, string>;
  body?: Buffer;
  method?: 'POST' | 'GET';
}) => Promise<Answer>;

async function sendAll(t: Test, call: Call, sending: Sending, key: string): Promise<void> {
  for (const [i, { path, type, body }] of sending.requests.entries()) {
    const isCompressed = body[0] === 0x1f;
    const answer = await call({
      ...{ method: 'POST', path, body },
      headers: {
        'content-type': type,
        'x-api-key': key,
        ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
        // Their answers are kept, with the ids of the items.
        ...(path.startsWith('/api/v1') ? { 'idempotency-key': `key-${i}` } : {}),
      },
    });
    t.ok(answer.status === 200 || answer.status === 202, `${path} ${type}: ${answer.status}`);
  }
  await eventually(
    () => call({ path: '/api/v1/traces?limit=100', headers: { 'x-api-key': key } }),
    ({ body }) => JSON.parse(body.toString()).traces?.length === 2 * sending.pairs,
    'all traces',
    60_000,
  );
}

/** The texts of one kind that are in a place, with the place. */
function found(hays: Iterable<Hay>, texts: readonly string[]): string[] {
  const needles = texts.flatMap((text) => {
    const isTraceId = /^[0-9a-f]{32}$/.test(text);
    if (isTraceId) return [Buffer.from(text), Buffer.from(text, 'hex')];
    // The index of payload text has the words on both sides of a hyphen.
    return [Buffer.from(text.replace(/^.*-/, ''))];
  });
  const search = new NeedleSearch(needles);
  const places = new Set<string>();
  for (const { where, bytes } of hays) {
    for (const needle of search.in(bytes)) places.add(`${needle} in ${where}`);
  }
  return [...places];
}

/** The search in payloads finds the text of every output. */
async function checkSearch(
  call: Call,
  texts: readonly string[],
  traces: 0 | 1,
  key: string,
): Promise<void> {
  for (const text of texts) {
    await eventually(
      () =>
        call({
          path: `/api/v1/traces?q=${encodeURIComponent(text)}`,
          headers: { 'x-api-key': key },
        }),
      ({ body }) => JSON.parse(body.toString()).traces?.length === traces,
      `${traces} traces for an output`,
      30_000,
    );
  }
}

const SEARCH = { payloads: '4KiB' };

/** The other traces are readable with each of their texts. */
async function checkKept(t: Test, call: Call, sending: Sending, key: string): Promise<void> {
  const headers = { 'x-api-key': key };
  const list = await call({ path: '/api/v1/traces?limit=100', headers });
  const { traces } = JSON.parse(list.body.toString()) as { traces: { id: string }[] };
  t.same(traces.map(({ id }) => id).sort(), [...sending.keptTraces].sort());
  const shown: string[] = [];
  for (const id of sending.keptTraces) {
    const path = `/api/v1/traces/${id}?payloads=true`;
    shown.push((await call({ path, headers })).body.toString());
  }
  const all = shown.join('\n');
  const lost = sending.kept.made.filter((text) => !all.includes(text));
  // Events of native events and runs, and unknown members, have no field in an answer.
  t.ok(lost.length < sending.kept.made.length / 4, `${lost.length} texts are not in an answer`);
}

/** Erases the user's traces, and waits for the receipt. */
async function erase(t: Test, daemon: Daemon, sending: Sending, ...more: string[]): Promise<void> {
  const query = `user:${sending.user}`;
  const counted = await daemon.cli('erase', query, '--dry-run', '--json', ...more);
  const dry = JSON.parse(counted.stdout);
  t.match(dry, { state: 'counted', traces: sending.pairs });
  const { code, stdout, stderr } = await daemon.cli('erase', query, '--yes', '--json', ...more);
  t.equal(code, 0, stderr);
  const done = JSON.parse(stdout);
  t.match(done, {
    ...{ state: 'done', traces: dry.traces, observations: dry.observations, bytes: dry.bytes },
    receipt: { traces: dry.traces, unreadable_batches: 0 },
  });
  t.notMatch(done.q, sending.user);
}

t.test('an erased user is in no file of a store, and the other traces are whole', async (t) => {
  const sink = await startOtlpServer(t);
  sink.always({ status: 400, body: 'no' });
  const away = await startOtlpServer(t);
  away.always({ status: 503, body: 'later' });
  const daemon = await startDaemon(t, {
    edit(config) {
      const { exporters, service } = config as Record<string, Tree>;
      Object.assign(treeAt(config, 'extensions', 'sqlite'), { search: SEARCH });
      Object.assign(exporters ?? {}, {
        'otlphttp/refused': { endpoint: sink.url },
        'otlphttp/away': { endpoint: away.url },
      });
      const pipelines = (service?.pipelines ?? {}) as Record<string, Record<string, string[]>>;
      pipelines['traces/raw'] = {
        receivers: ['disk_queue'],
        exporters: ['otlphttp/refused', 'otlphttp/away'],
      };
    },
  });
  const sending = new Sending();
  const call: Call = (request) => daemon.call(request);
  await sendAll(t, call, sending, daemon.key);
  await eventually(
    async () => JSON.parse((await daemon.cli('dead-letter', 'list', '--json')).stdout),
    ({ dead_letters: all }) => all.length >= sending.requests.length,
    'a dead letter for each request',
    30_000,
  );
  const before = found(haysOfDirectory(daemon.directory), sending.gone.made);
  t.ok(before.length > sending.gone.made.length, 'the search finds them before');
  t.ok(before.some((sighting) => sighting.includes('idempotency.body')));
  await checkSearch(call, [...sending.outputs.gone, ...sending.outputs.kept], 1, daemon.key);
  t.ok(found(haysOfDirectory(daemon.directory), sending.outputs.gone).join().includes('search.db'));
  await erase(t, daemon, sending);
  await checkSearch(call, sending.outputs.gone, 0, daemon.key);
  await checkSearch(call, sending.outputs.kept, 1, daemon.key);
  t.same(found(haysOfDirectory(daemon.directory), sending.gone.made).slice(0, 20), []);
  await checkKept(t, call, sending, daemon.key);
  await daemon.end('SIGTERM');
  t.same(found(haysOfDirectory(daemon.directory), sending.gone.made).slice(0, 20), []);
});

t.test('an erased user is in no table of Postgres and no value of Redis', async (t) => {
  const away = await startOtlpServer(t);
  away.always({ status: 503, body: 'later' });
  const refused = await startOtlpServer(t);
  refused.always({ status: 400, body: 'no' });
  const cluster = await startCluster(t, {
    gateways: 1,
    workers: 1,
    gateway(config) {
      Object.assign(treeAt(config, 'extensions', 'postgres'), { search: SEARCH });
    },
    worker(config) {
      Object.assign(treeAt(config, 'extensions', 'postgres'), { search: SEARCH });
      Object.assign(treeAt(config, 'exporters'), {
        'otlphttp/away': { endpoint: away.url },
        'otlphttp/refused': { endpoint: refused.url },
      });
      const pipelines = treeAt(config, 'service', 'pipelines') as Record<string, Tree>;
      for (const pipeline of Object.values(pipelines)) {
        (pipeline.exporters as string[]).push('otlphttp/away', 'otlphttp/refused');
      }
    },
  });
  const [gateway] = cluster.gateways;
  const [worker] = cluster.workers;
  if (gateway === undefined || worker === undefined) throw new Error('the cluster is not whole');
  const sending = new Sending();
  const call: Call = (request) => gateway.call(request);
  await sendAll(t, call, sending, cluster.key);
  await eventually(
    () => sql(cluster.database, 'SELECT id FROM queue_dead_letters'),
    (letters) => letters.length >= sending.requests.length,
    'a dead letter for each request',
    30_000,
  );
  const before = found(await clusterHays(cluster), sending.gone.made);
  t.ok(before.length > sending.gone.made.length, 'the search finds them before');
  await checkSearch(call, [...sending.outputs.gone, ...sending.outputs.kept], 1, cluster.key);
  await erase(t, gateway, sending);
  await checkSearch(call, sending.outputs.gone, 0, cluster.key);
  await checkSearch(call, sending.outputs.kept, 1, cluster.key);
  t.same(found(await clusterHays(cluster), sending.gone.made).slice(0, 20), []);
  await checkKept(t, call, sending, cluster.key);
});

type Searched = Pick<
  Awaited<ReturnType<typeof startCluster>>,
  'database' | 'redis' | 'gateways' | 'workers'
>;

async function clusterHays({ database, redis, gateways, workers }: Searched): Promise<Hay[]> {
  const hays: Hay[] = [];
  const tables = await sql(
    database,
    `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  );
  for (const { relname } of tables) {
    for (const row of await sql(database, `SELECT * FROM "${String(relname)}"`)) {
      for (const [column, cell] of Object.entries(row)) {
        hays.push(...haysOf(`postgres ${String(relname)}.${column}`, cell));
      }
    }
  }
  for (const [key, value] of await redisValues(redis)) {
    hays.push({ where: `redis ${key}`, bytes: Buffer.from(value) });
  }
  for (const { directory } of [...gateways, ...workers]) hays.push(...haysOfDirectory(directory));
  // An erasure does not reach the files of the exporter `file`.
  return hays.filter(({ where }) => !where.includes('/archive/'));
}
