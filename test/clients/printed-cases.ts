import type { ClientCase } from './client-case.ts';

/** A program of no page, and what it or its client prints. */
export type PrintedCase = {
  readonly name: string;
  readonly list: ClientCase['list'];
  readonly settings: string;
  readonly program: string;
  readonly prints: readonly RegExp[];
};

/** Of the daemon that runs the programs, so that a run without an end is stale soon. */
export const STALE_STORE = { stale_after: '1s' };

type Near = { readonly path: string; readonly prints: RegExp };

const BASE = 'http://127.0.0.1:4318';

const OTLP_HEADERS = 'export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20$KEY"';

/** Usual wrong values of `OTEL_EXPORTER_OTLP_ENDPOINT`. */
const OTLP_BASES: readonly Near[] = [
  { path: '/v1/traces', prints: /signal is twice.*Set OTEL_EXPORTER_OTLP_ENDPOINT/ },
  { path: '/api/v1', prints: /Remove \/api\/v1 from OTEL_EXPORTER_OTLP_ENDPOINT/ },
  { path: '/api', prints: /Spans are accepted at \/v1\/traces/ },
  { path: '/otlp', prints: /Spans are accepted at \/v1\/traces/ },
];

/** Usual wrong values of `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. */
const OTLP_URLS: readonly Near[] = [
  { path: '', prints: /Nothing is served at the root. Spans are accepted at \/v1\/traces/ },
  { path: '/v1', prints: /Spans are accepted at \/v1\/traces/ },
  { path: '/api/public/otel', prints: /Set OTEL_EXPORTER_OTLP_ENDPOINT/ },
  { path: '/v1/traces/v1/traces', prints: /signal is twice/ },
];

/** Usual wrong values of `LANGFUSE_BASE_URL`. */
const LANGFUSE_BASES: readonly Near[] = [
  { path: '/api/public/otel', prints: /Set LANGFUSE_BASE_URL/ },
  { path: '/api/public', prints: /Set LANGFUSE_BASE_URL/ },
  { path: '/api/v1', prints: /Set LANGFUSE_BASE_URL/ },
  { path: '/v1/traces', prints: /Set LANGFUSE_BASE_URL/ },
];

/** Usual wrong values of `LANGSMITH_ENDPOINT`. */
const LANGSMITH_BASES: readonly Near[] = [
  { path: '/api/v1/api/v1', prints: /Remove \/api\/v1 .*Set LANGSMITH_ENDPOINT/ },
  { path: '/v1', prints: /Set LANGSMITH_ENDPOINT to the address without a path/ },
  { path: '/api', prints: /Set LANGSMITH_ENDPOINT/ },
  { path: '/api/public/otel', prints: /Set LANGSMITH_ENDPOINT/ },
];

/**
 * The programs with a wrong setting, which are to print the right one. One program for all values of a setting is not possible: the
 * clients read it once.
 */
function near(
  kind: string,
  list: ClientCase['list'],
  program: string,
  settings: (url: string) => string,
  values: readonly Near[],
): PrintedCase[] {
  return values.map(({ path, prints }) => ({
    ...{ name: `${kind} with ${path === '' ? 'no path' : path}`, list, program },
    settings: settings(`${BASE}${path}`),
    prints: [prints],
  }));
}

const otlpBase = (url: string) => `${OTLP_HEADERS}\nexport OTEL_EXPORTER_OTLP_ENDPOINT=${url}
export OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none`;
const otlpUrl = (url: string) => `${OTLP_HEADERS}\nexport OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${url}
export OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none`;
const langfuse = (url: string) =>
  `export LANGFUSE_PUBLIC_KEY=pk-lf-x LANGFUSE_SECRET_KEY=$KEY LANGFUSE_BASE_URL=${url}`;
const langsmith = (url: string) =>
  `export LANGSMITH_TRACING=true LANGSMITH_API_KEY=$KEY LANGSMITH_ENDPOINT=${url}`;

const JS_OTLP = `
import { trace } from '@opentelemetry/api';
import { NodeSDK } from '@opentelemetry/sdk-node';

const sdk = new NodeSDK();
sdk.start();
trace.getTracer('demo').startSpan('demo').end();
await sdk.shutdown();
`;

const JS_LANGFUSE = `
import { LangfuseSpanProcessor } from '@langfuse/otel';
import { startObservation } from '@langfuse/tracing';
import { NodeSDK } from '@opentelemetry/sdk-node';

const sdk = new NodeSDK({ spanProcessors: [new LangfuseSpanProcessor()] });
sdk.start();
startObservation('demo').end();
await sdk.shutdown();
`;

const JS_LANGSMITH = `
import { Client } from 'langsmith';
import { traceable } from 'langsmith/traceable';

const client = new Client();
await traceable((x) => x, { name: 'demo', client })(1);
await client.awaitPendingTraceBatches();
`;

const PYTHON_OTLP = `
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("demo").start_as_current_span("demo"):
    pass
provider.shutdown()
`;

const PYTHON_LANGFUSE = `
from langfuse import Langfuse

langfuse = Langfuse()
with langfuse.start_as_current_observation(name="demo", as_type="span"):
    pass
langfuse.shutdown()
`;

const PYTHON_LANGSMITH = `
from langsmith import Client, traceable

client = Client()


@traceable(client=client)
def demo(x):
    return x


demo(1)
client.flush()
`;

const JS_STATS = `
import { Client } from 'langsmith';

await new Client().getRunStats({ projectNames: ['default'] }).catch((error) => console.log(String(error)));
`;

const PYTHON_STATS = `
from langsmith import Client
from langsmith.utils import LangSmithError

try:
    Client().get_run_stats(project_names=["default"])
except LangSmithError as error:
    print(error)
`;

/** The client does not retry the request. */
const STATS = [/Statistics are read with GET \/api\/v1\/stats/];

/** Prints the state of a trace as soon as it is the wanted one, and the name. */
const JS_STATE = `
async function state(id, wanted, name) {
  const headers = { authorization: \`Bearer \${process.env.KEY}\` };
  for (;;) {
    const answer = await fetch(\`${BASE}/api/v1/traces/\${id}\`, { headers });
    const { trace } = answer.ok ? await answer.json() : {};
    if (trace?.state === wanted && (name ?? trace.name) === trace.name) {
      return console.log(wanted, trace.name);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
`;

const JS_STALE_RUN = `
import { Client, RunTree } from 'langsmith';
${JS_STATE}
const client = new Client();
const run = new RunTree({ name: 'slow', run_type: 'chain', inputs: { a: 1 }, client });
await run.postRun();
await client.awaitPendingTraceBatches();
await state(run.id, 'interrupted');
await run.end({ b: 2 });
await run.patchRun();
await client.awaitPendingTraceBatches();
await state(run.id, 'finished');
`;

/** The child arrives, and its parent only after the trace is as old as a stale one. A child that has ended stands for the root. */
const JS_LATE_PARENT = `
import { context, trace } from '@opentelemetry/api';
import { NodeSDK, tracing } from '@opentelemetry/sdk-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
${JS_STATE}
const processor = new tracing.SimpleSpanProcessor(new OTLPTraceExporter());
const sdk = new NodeSDK({ spanProcessors: [processor] });
sdk.start();
const tracer = trace.getTracer('demo');
const parent = tracer.startSpan('parent');
tracer.startSpan('child', {}, trace.setSpan(context.active(), parent)).end();
await processor.forceFlush();
const { traceId } = parent.spanContext();
await state(traceId, 'finished', 'child');
await new Promise((resolve) => setTimeout(resolve, 1100));
await state(traceId, 'finished', 'child');
parent.end();
await processor.forceFlush();
await state(traceId, 'finished', 'parent');
await sdk.shutdown();
`;

const PYTHON_STALE_RUN = `
import json
import os
import time
import urllib.error
import urllib.request

from langsmith import Client, RunTree


def state(run_id, wanted):
    headers = {"Authorization": "Bearer " + os.environ["KEY"]}
    request = urllib.request.Request(f"${BASE}/api/v1/traces/{run_id}", headers=headers)
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                if json.load(answer)["trace"]["state"] == wanted:
                    return print(wanted, "slow")
        except urllib.error.HTTPError:
            pass
        time.sleep(0.05)


client = Client()
run = RunTree(name="slow", run_type="chain", inputs={"a": 1}, client=client)
run.post()
client.flush()
state(run.id, "interrupted")
run.end(outputs={"b": 2})
run.patch()
client.flush()
state(run.id, "finished")
`;

const JS_RUNS = `
import { Client } from 'langsmith';
import { traceable } from 'langsmith/traceable';

const client = new Client();
const step = traceable(async (x) => x + 1, { name: 'step', run_type: 'tool', client });
const metadata = { thread_id: 'thread-1' };
await traceable(async (x) => step(await step(x)), { name: 'demo', client, metadata })(1);
await client.awaitPendingTraceBatches();
const { id } = await client.readProject({ projectName: 'default' });
const selects = ['ID', 'NAME', 'STATUS', 'RUN_TYPE', 'OUTPUTS'];
let runs;
do {
  await new Promise((resolve) => setTimeout(resolve, 50));
  runs = [];
  for await (const run of client.runs.query({ project_ids: [id], page_size: 2, selects })) runs.push(run);
} while (runs.filter(({ status }) => status === 'SUCCESS').length < 3);
const { name, outputs } = await client.runs.retrieve(runs[2].id, { project_id: id, selects });
const tools = await client.runs.query({ project_ids: [id], run_type: 'TOOL', is_root: false, selects });
console.log(...runs.map((run) => run.name), tools.items.length, name, outputs.outputs);
await client.runs
  .query({ project_ids: [id], tree_filter: 'eq(name, "demo")' })
  .catch((error) => console.log(String(error)));
const about = { project_id: id, selects: ['NAME', 'TOTAL_TOKENS'] };
for await (const trace of client.traces.query(about)) console.log('trace', trace.root_run.name);
for await (const { root_run: run } of client.traces.streaming.queryItems(about)) console.log('stream', run.name);
const { trace_id } = await client.runs.retrieve(runs[2].id, { project_id: id, selects: ['TRACE_ID'] });
console.log('runs', (await client.traces.listRuns(trace_id, { project_id: id })).items.length);
for await (const thread of client.threads.query({ project_id: id })) {
  for await (const { name } of client.threads.listTraces(thread.thread_id, about)) console.log('thread', thread.count, name);
}
await client.threads
  .stats('thread-1', { session_id: id, selects: ['TURNS'] })
  .catch((error) => console.log(String(error)));
`;

const PYTHON_RUNS = `
import asyncio

from langsmith import Client, traceable

client = Client()


@traceable(client=client, run_type="tool")
def step(x):
    return x + 1


@traceable(client=client, metadata={"thread_id": "thread-1"})
def demo(x):
    return step(step(x))


async def read():
    project = str(client.read_project(project_name="default").id)
    selects = ["ID", "NAME", "STATUS", "RUN_TYPE", "OUTPUTS"]

    async def query(**asked):
        return [run async for run in client.runs.query(project_ids=[project], **asked)]

    runs = []
    while len([run for run in runs if run.status == "SUCCESS"]) < 3:
        await asyncio.sleep(0.05)
        runs = await query(page_size=2, selects=selects)
    last = await client.runs.retrieve(runs[2].id, project_id=project, selects=selects)
    tools = await query(run_type="TOOL", is_root=False)
    print(*[run.name for run in runs], len(tools), last.name, last.outputs["output"])
    try:
        await query(tree_filter='eq(name, "demo")')
    except Exception as error:
        print(error)
    about = {"project_id": project, "selects": ["NAME", "TOTAL_TOKENS"]}
    async for trace in client.traces.query(**about):
        print("trace", trace.root_run.name)
    async for trace in client.traces.streaming.query_items(**about):
        print("stream", trace.root_run.name)
    of = await client.runs.retrieve(runs[2].id, project_id=project, selects=["TRACE_ID"])
    listed = await client.traces.list_runs(of.trace_id, project_id=project)
    print("runs", len(listed.items))
    async for thread in client.threads.query(project_id=project):
        async for trace in client.threads.list_traces(thread.thread_id, **about):
            print("thread", thread.count, trace.name)
    try:
        await client.threads.stats("thread-1", session_id=project, selects=["TURNS"])
    except Exception as error:
        print(error)


demo(1)
client.flush()
asyncio.run(read())
`;

/** Runs by pages and one by its id; a filter that is not served; traces and threads, and a request that is not served. */
const RUNS = [
  /^demo step step 2 step 3$/m,
  /tree_filter.* is not served here/,
  /^trace demo\nstream demo\nruns 3\nthread 1 demo$/m,
  /Sums over a thread are read at \/api\/v1\/sessions\/ID/,
];

const REVIVED = [/^interrupted slow\nfinished slow$/m];
const LATE_PARENT = [/^finished child\nfinished child\nfinished parent$/m];

/** The programs in JavaScript. */
export const NPM_PRINTED: readonly PrintedCase[] = [
  ...near('OpenTelemetry for JavaScript, base', 'npm', JS_OTLP, otlpBase, OTLP_BASES),
  ...near('OpenTelemetry for JavaScript, URL', 'npm', JS_OTLP, otlpUrl, OTLP_URLS),
  ...near('Langfuse for JavaScript', 'npm', JS_LANGFUSE, langfuse, LANGFUSE_BASES),
  ...near('LangSmith for JavaScript', 'npm', JS_LANGSMITH, langsmith, LANGSMITH_BASES),
  {
    name: 'LangSmith for JavaScript: statistics',
    ...{ list: 'npm', settings: langsmith(BASE), program: JS_STATS, prints: STATS },
  },
  {
    name: 'LangSmith for JavaScript: runs that are read back',
    ...{ list: 'npm', settings: langsmith(BASE), program: JS_RUNS, prints: RUNS },
  },
  {
    name: 'LangSmith for JavaScript: a run that ends after it is stale',
    ...{ list: 'npm', settings: langsmith(BASE), program: JS_STALE_RUN, prints: REVIVED },
  },
  {
    name: 'OpenTelemetry for JavaScript: a parent that arrives late',
    ...{ list: 'npm', settings: otlpBase(BASE), program: JS_LATE_PARENT, prints: LATE_PARENT },
  },
];

/** The programs in Python. */
export const PYTHON_PRINTED: readonly PrintedCase[] = [
  ...near('OpenTelemetry for Python, base', 'main', PYTHON_OTLP, otlpBase, OTLP_BASES),
  ...near('OpenTelemetry for Python, URL', 'main', PYTHON_OTLP, otlpUrl, OTLP_URLS),
  ...near('Langfuse for Python', 'main', PYTHON_LANGFUSE, langfuse, LANGFUSE_BASES),
  ...near('LangSmith for Python', 'main', PYTHON_LANGSMITH, langsmith, LANGSMITH_BASES),
  {
    name: 'LangSmith for Python: statistics',
    ...{ list: 'main', settings: langsmith(BASE), program: PYTHON_STATS, prints: STATS },
  },
  {
    name: 'LangSmith for Python: runs that are read back',
    ...{ list: 'main', settings: langsmith(BASE), program: PYTHON_RUNS, prints: RUNS },
  },
  {
    name: 'LangSmith for Python: a run that ends after it is stale',
    ...{ list: 'main', settings: langsmith(BASE), program: PYTHON_STALE_RUN, prints: REVIVED },
  },
];
