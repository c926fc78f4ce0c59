/** The clients that a snippet exists for, in the order of their tabs. */
export const CLIENTS = [
  'curl',
  'Python',
  'JavaScript',
  'LangSmith',
  'OpenTelemetry SDK',
  'Collector',
  'Langfuse',
] as const;
export type ClientName = (typeof CLIENTS)[number];

/** The text of a snippet in place of a key. */
export const YOUR_KEY = 'YOUR_KEY';

/** Where the daemon listens, as `GET /api/v1/service` lists it. */
export type Endpoint = { readonly url: string; readonly routes: readonly string[] };

/** The base address for each form of data; undefined if no receiver takes it. */
export type Addresses = {
  readonly native: string | undefined;
  readonly runs: string | undefined;
  readonly otlp: string | undefined;
};

export function addressesOf(endpoints: readonly Endpoint[]): Addresses {
  const base = (route: string): string | undefined =>
    endpoints.find(({ url, routes }) => url.startsWith('http') && routes.includes(route))?.url;
  return {
    native: base('POST /api/v1/observations/batch'),
    runs: base('POST /api/v1/runs/batch'),
    otlp: base('POST /api/public/otel/v1/traces'),
  };
}

export type Values = {
  readonly addresses: Addresses;
  readonly key: string;
  readonly projectId: string;
};

/** A text to run or to paste; `note` says where. */
export type Snippet = { readonly note: string; readonly text: string };

/** Undefined if the daemon has no receiver for the data of this client. */
export function snippetOf(client: ClientName, values: Values): Snippet | undefined {
  const { native, runs, otlp } = values.addresses;
  const base = client === 'LangSmith' ? runs : NATIVE.has(client) ? native : otlp;
  return base === undefined ? undefined : WRITERS[client](base, values);
}

const NATIVE: ReadonlySet<ClientName> = new Set(['curl', 'Python', 'JavaScript']);

type Writer = (base: string, values: Values) => Snippet;

const WRITERS: Readonly<Record<ClientName, Writer>> = {
  curl: (base, { key }) => ({
    note: 'Run it in a terminal.',
    text: `curl -s ${base}/api/v1/observations/batch \\
  -H 'x-api-key: ${key}' -H 'content-type: application/json' -d '{"events":[
  {"id":"hello-'$(date +%s)'","trace_id":"hello-'$(date +%s)'","operation":"finish",
   "kind":"llm","status":"success","name":"first call",
   "start_time":"'$(date -u +%FT%T.000Z)'","end_time":"'$(date -u +%FT%T.850Z)'",
   "inputs":{"prompt":"Hi"},"outputs":{"text":"Hello!"},
   "usage":{"input_tokens":1,"output_tokens":2}}]}'`,
  }),
  Python: (base, { key }) => ({
    note: 'Needs Python 3 and no package.',
    text: `import datetime, json, urllib.request, uuid

end = datetime.datetime.now(datetime.timezone.utc)
start = end - datetime.timedelta(milliseconds=850)
event = {
    "id": str(uuid.uuid4()), "trace_id": str(uuid.uuid4()), "operation": "finish",
    "kind": "llm", "status": "success", "name": "first call",
    "start_time": start.isoformat(), "end_time": end.isoformat(),
    "inputs": {"prompt": "Hi"}, "outputs": {"text": "Hello!"},
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
request = urllib.request.Request(
    "${base}/api/v1/observations/batch",
    data=json.dumps({"events": [event]}).encode(),
    headers={"x-api-key": "${key}", "content-type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())`,
  }),
  JavaScript: (base, { key }) => ({
    note: 'Needs Node 18 or later, saved as a file that ends in .mjs, and no package.',
    text: `const end = Date.now();
const event = {
  id: crypto.randomUUID(), trace_id: crypto.randomUUID(), operation: 'finish',
  kind: 'llm', status: 'success', name: 'first call',
  start_time: new Date(end - 850).toISOString(), end_time: new Date(end).toISOString(),
  inputs: { prompt: 'Hi' }, outputs: { text: 'Hello!' },
  usage: { input_tokens: 1, output_tokens: 2 },
};
const answer = await fetch('${base}/api/v1/observations/batch', {
  method: 'POST',
  headers: { 'x-api-key': '${key}', 'content-type': 'application/json' },
  body: JSON.stringify({ events: [event] }),
});
console.log(await answer.text());`,
  }),
  LangSmith: (base, { key }) => ({
    note: 'Environment of a program that LangChain, LangGraph or the LangSmith SDK traces.',
    text: `export LANGSMITH_TRACING=true
export LANGSMITH_ENDPOINT=${base}/api/v1
export LANGSMITH_API_KEY=${key}`,
  }),
  'OpenTelemetry SDK': (base, { key }) => ({
    note: 'Environment of a program with an OpenTelemetry SDK, OpenInference or OpenLLMetry.',
    text: `export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${base}/api/public/otel/v1/traces
export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_TRACES_HEADERS="x-api-key=${key}"`,
  }),
  Collector: (base, { key }) => ({
    note: 'Configuration of an OpenTelemetry Collector. Name the exporter in a pipeline of traces.',
    text: `exporters:
  otlphttp/tracectl:
    traces_endpoint: ${base}/api/public/otel/v1/traces
    headers:
      x-api-key: ${key}`,
  }),
  Langfuse: (base, { key, projectId }) => ({
    note: 'Environment of a program with the Langfuse SDK: for Python version 3 or later, for JavaScript 4 or later. The last line keeps images in the messages.',
    text: `export LANGFUSE_HOST=${base}
export LANGFUSE_BASE_URL=${base}
export LANGFUSE_PUBLIC_KEY=${projectId}
export LANGFUSE_SECRET_KEY=${key}
export LANGFUSE_MEDIA_UPLOAD_ENABLED=false`,
  }),
};
