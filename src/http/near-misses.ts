/** Clients of other services that come with a path that is not served, and what their users have to change. */

const NOT_SERVED = 'Nothing is served at this path.';

const BASE_OF_OTLP =
  'Set OTEL_EXPORTER_OTLP_ENDPOINT to the base URL, to which exporters append /v1/traces, or ' +
  'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT to the whole URL that ends in /v1/traces.';

const BASE_OF_LANGSMITH = 'Set LANGSMITH_ENDPOINT to the address without a path.';

const BASE_OF_LANGFUSE = 'Set LANGFUSE_BASE_URL (LANGFUSE_HOST) to the address without a path.';

type NearMiss = {
  readonly pattern: RegExp;
  /** The message is for a listener that serves this path. */
  readonly needs?: string;
  readonly message: string;
};

const SPANS = '/api/public/otel/v1/traces';
const RUNS = '/api/v1/runs/batch';
const SCORES = '/api/public/scores';

/** In the order in which they are tried. */
const NEAR_MISSES: readonly NearMiss[] = [
  {
    pattern: /\/api\/public\/otel\/+api\/public(?:\/|$)/,
    needs: SPANS,
    message: `The base URL of the client ends in /api/public/otel, and the client appends a whole path. ${BASE_OF_LANGFUSE}`,
  },
  {
    pattern: /^\/.+\/api\/public(?:\/|$)/,
    needs: SPANS,
    message: `The base URL of the client has a path, and the client appends a whole one. ${BASE_OF_LANGFUSE}`,
  },
  {
    pattern: /\/v1\/(?:traces|metrics|logs)\/+(?:v1\/+)?v1\/(?:traces|metrics|logs)\/*$/,
    needs: SPANS,
    message: `The path of the signal is twice in this path. ${BASE_OF_OTLP}`,
  },
  {
    pattern: /^\/+api\/v1\/+api\/v1(?:\/|$)/,
    message: `The base URL of the client ends in /api/v1, and the client appends it again. Remove /api/v1 from the base URL. ${BASE_OF_LANGSMITH}`,
  },
  {
    pattern: /^\/+api\/v1\/+v1\/(?:traces|metrics|logs)\/*$/,
    needs: SPANS,
    message:
      'Spans are accepted at /v1/traces. Remove /api/v1 from OTEL_EXPORTER_OTLP_ENDPOINT, to which exporters append /v1/traces.',
  },
  {
    pattern:
      /^\/+(?:api\/public\/otel|api\/v1\/otel|otel|v1)(?:\/v1)?\/*$|\/v1\/(?:traces|metrics|logs)\/*$|^\/+(?:v1\/+)?traces?\/*$/,
    needs: SPANS,
    message: `Spans are accepted at /v1/traces and /api/public/otel/v1/traces. ${BASE_OF_OTLP}`,
  },
  {
    // Paths of LangSmith behind another one. Those behind `/api/v2` are of its second version.
    pattern: /^\/(?!(?:api\/)?v2\/).+\/(?:info|runs\/(?:batch|multipart)|otel\/v1\/traces)\/*$/,
    needs: RUNS,
    message: `The base URL of the client has a path that is not served. ${BASE_OF_LANGSMITH}`,
  },
  {
    pattern: /^\/+api\/public\/(?:v2\/)?prompts(?:\/|$)/,
    message: 'Prompts are not managed here. A fallback that the caller gives is used instead.',
  },
  {
    pattern: /^\/+api\/public\/media(?:\/|$)/,
    needs: SCORES,
    message:
      'Media of Langfuse are not stored here: set LANGFUSE_MEDIA_UPLOAD_ENABLED=false. Attachments of LangSmith runs are stored.',
  },
  {
    pattern:
      /^\/+api\/public\/+(?:v2\/+)?(?:datasets|dataset-items|dataset-run-items|experiments|experiment-items)(?:\/|$)/,
    needs: SCORES,
    message:
      'Datasets of Langfuse are not served here. An experiment whose data is a list in the program stores its traces, and the scores of its items.',
  },
  {
    pattern:
      /^\/+api\/public\/+(?:v[23]\/+)?(?:traces|observations|scores|sessions|metrics)(?:\/|$)/,
    needs: SCORES,
    message:
      'The reading requests of Langfuse are not served here. Traces are read at /api/v1/traces, one with its observations at ' +
      '/api/v1/traces/ID?payloads=true, its scores at /api/v1/traces/ID/scores, sessions at /api/v1/sessions, and statistics at ' +
      '/api/v1/stats. `tracectl erase` deletes traces.',
  },
  {
    // `get_trace_url` of Langfuse's clients.
    pattern: /^\/+project\/+[^/]+\/+(?:traces|sessions|users)(?:\/|$)/,
    needs: SCORES,
    message:
      'This is an address of the web UI of Langfuse. The web UI here has the address of the admin API, and a trace is at /traces/ID there.',
  },
  {
    pattern: /^\/+api\/public(?:\/|$)/,
    needs: SCORES,
    message:
      'Of the API of Langfuse, /api/public/otel/v1/traces, /api/public/projects, /api/public/scores and, for scores, ' +
      '/api/public/ingestion are served. Traces are read at /api/v1/traces.',
  },
  {
    pattern: /^\/+(?:api\/v1\/+)?runs\/+[^/]+\/+share(?:\/|$)/,
    needs: RUNS,
    message: 'Runs of LangSmith are not shared here.',
  },
  {
    pattern: /^\/+(?:api\/v1\/+)?(?:runs|feedback|sessions|info|otel)(?:\/|$)/,
    needs: RUNS,
    message:
      'Of the API of LangSmith, runs, feedback, sessions and info are served, with and without /api/v1 before them. ' +
      'Traces are read at /api/v1/traces.',
  },
  {
    pattern:
      /^\/+(?:api\/v1\/+)?(?:datasets|examples|annotation-queues|commits|repos|public|prompts|orgs|workspaces|settings|charts|feedback-configs)(?:\/|$)/,
    needs: RUNS,
    message:
      'Datasets, examples, prompts, annotation queues and sharing of LangSmith are not served here. Runs and feedback are.',
  },
  {
    pattern:
      /^\/+(?:api\/+)?v2\/+(?:(?:runs|traces|threads|sessions)\/+[^/]|(?:datasets|public|sandboxes)(?:\/|$))/,
    needs: RUNS,
    message:
      'Of the second version of the API of LangSmith, client.runs.retrieve and client.runs.query, client.traces.query and client.traces.list_runs, ' +
      'client.threads.query and client.threads.list_traces are served here. Sums over a thread are read at /api/v1/sessions/ID, and others at /api/v1/stats.',
  },
  {
    pattern: /^\/*$/,
    message:
      'Nothing is served at the root. Spans are accepted at /v1/traces, runs at /api/v1/runs/batch, and observation events at ' +
      '/api/v1/observations/batch.',
  },
];

/** The message of a 404: what the path misses, if a client is known that sends it. It does not repeat the path. */
export function notServed(path: string, isServed: (path: string) => boolean): string {
  if (path.length > 1 && path.endsWith('/') && isServed(withoutSlashes(path))) {
    return 'This path is served without the slash at its end.';
  }
  const found = NEAR_MISSES.find(
    ({ pattern, needs }) => pattern.test(path) && (needs === undefined || isServed(needs)),
  );
  return found?.message ?? NOT_SERVED;
}

function withoutSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end--;
  return path.slice(0, end);
}

type WrongMethod = {
  /** By default, POST. */
  readonly methods?: readonly string[];
  readonly pattern: RegExp;
  readonly hint: string;
};

/** A path that is served for other methods than these, and what follows its 405. */
const WRONG_METHODS: readonly WrongMethod[] = [
  {
    // `delete_project` and `update_project` of LangSmith's clients.
    methods: ['DELETE', 'PATCH'],
    pattern: /^(?:\/api\/v1)?\/sessions\/[^/]+$/,
    hint: ' Projects are not changed here: `tracectl projects` deletes and renames them.',
  },
  {
    // An exporter whose base URL ends in `/api` sends spans to the path that lists traces.
    pattern: /^\/api\/v1\/traces$/,
    hint: ' Spans are accepted at /v1/traces and /api/public/otel/v1/traces.',
  },
  {
    // `get_run_stats` of LangSmith's clients, at a path that reads one run.
    pattern: /^(?:\/api\/v1)?\/runs\/stats$/,
    hint: ' Statistics are read with GET /api/v1/stats, and runs with client.runs.query, list_runs or listRuns.',
  },
  {
    // `listGroupRuns` of LangSmith's clients.
    pattern: /^(?:\/api\/v1)?\/runs\/group$/,
    hint: ' Groups of runs are not served here. Threads are read with client.threads.query.',
  },
  {
    // `create_project` of LangSmith's clients, which `evaluate` calls for its experiment.
    pattern: /^(?:\/api\/v1)?\/sessions$/,
    hint:
      ' The key of a request decides its project. `tracectl projects create` makes projects, and `tracectl keys create` their keys. ' +
      'Experiments of `evaluate` are not served here.',
  },
  {
    // The reading of scores with Langfuse's clients, at paths that create and delete them.
    methods: ['GET', 'HEAD'],
    pattern: /^\/api\/public\/scores(?:\/[^/]+)?$/,
    hint: ' Scores are read at /api/v1/traces/ID/scores.',
  },
  {
    // `create_presigned_feedback_token` of LangSmith's clients.
    pattern: /^(?:\/api\/v1)?\/feedback\/tokens$/,
    hint: ' Tokens for feedback are not served here. Feedback needs a key of the project.',
  },
];

/** The hint behind a 405, if a client is known that sends the request. */
export function wrongMethodHint(method: string, path: string): string {
  const found = WRONG_METHODS.find(
    ({ methods = ['POST'], pattern }) => methods.includes(method) && pattern.test(path),
  );
  return found?.hint ?? '';
}
