import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { formatIssue, loadConfig } from '../../../src/config/load.ts';
import { allFactories } from '../../../src/registry.ts';

/** Fields and components of the Collector's own documentation and of its Helm chart. */
const COLLECTOR = `
extensions:
  health_check: {endpoint: 127.0.0.1:13133, check_collector_pipeline: {enabled: true}}
  file_storage: {directory: ./data, timeout: 1s, fsync: true, compaction: {on_start: true}}
  pprof:
  zpages:
receivers:
  otlp:
    protocols:
      grpc: {max_recv_msg_size_mib: 16, transport: tcp, read_buffer_size: 1, include_metadata: true}
      http:
        cors: {allowed_origins: ['*']}
        traces_url_path: /v1/traces
        idle_timeout: 1m
        max_request_body_size: 20971520
        auth: {authenticator: basicauth}
  jaeger: {protocols: {grpc: }}
  prometheus:
processors:
  batch:
  memory_limiter: {check_interval: 5s, limit_percentage: 80}
  redaction/pii: {allow_all_keys: false, allowed_keys: [a], blocked_values: ['4[0-9]{12}'], summary: debug}
  filter: {error_mode: ignore, traces: {span: ['a == "b"']}}
connectors:
  spanmetrics:
exporters:
  debug: {verbosity: detailed, use_internal_logger: false}
  file: {path: ./a, rotation: {localtime: true}, flush_interval: 1s}
  otlp: {endpoint: 'a:4317'}
  otlp_http/far:
    endpoint: http://a:4318
    logs_endpoint: http://a:4318/v1/logs
    auth: {authenticator: bearertokenauth}
    compression: snappy
    max_idle_conns_per_host: 3
    sending_queue: {blocking: true}
    tls: {reload_interval: 1h, max_version: '1.3'}
service:
  extensions: [health_check, pprof, zpages]
  telemetry:
    logs: {development: true, output_paths: [stdout], sampling: {enabled: true}}
    metrics: {level: detailed, readers: []}
    resource: {service.name: x}
  pipelines:
    traces: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [otlp_http/far]}
    metrics: {receivers: [otlp], exporters: [debug]}
    logs: {receivers: [otlp], exporters: [debug]}
`;

async function messagesOf(text: string): Promise<string[]> {
  const registry = await allFactories();
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-config-'));
  try {
    writeFileSync(join(cwd, 'a.yaml'), text);
    const { issues } = loadConfig({ files: ['a.yaml'], env: {}, cwd, registry });
    return issues.map((issue) => formatIssue(issue).replace(/^[^ ]+ /, ''));
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

t.test('says what to write instead of each name of a Collector', async (t) => {
  const messages = await messagesOf(COLLECTOR);
  const unknown = messages.filter((message) => /: unknown (key|type) /.test(message));
  t.equal(unknown.length, 40);
  for (const message of unknown) t.match(message, 'of the OpenTelemetry Collector: ');
  for (const message of [
    'idle_timeout: unknown key "idle_timeout"; it is a field of the OpenTelemetry Collector: leave it out (',
    'far.logs_endpoint: unknown key "logs_endpoint"; it is a field of the OpenTelemetry Collector: only traces are sent (',
    'far.auth: unknown key "auth"; it is a field of the OpenTelemetry Collector: set headers (',
    'http.auth: unknown key "auth"; it is a field of the OpenTelemetry Collector: use the processor auth (',
    'pii.blocked_values: unknown key "blocked_values"; it is a field of the OpenTelemetry Collector: list them in patterns (',
    'metrics.level: expected one of none, normal; it is a value of the OpenTelemetry Collector: write normal (got "detailed")',
    'compression: expected one of gzip, zstd, none; it is a value of the OpenTelemetry Collector: write gzip (got "snappy")',
  ]) {
    t.ok(
      messages.some((found) => found.includes(message)),
      message,
    );
  }
  t.notOk(
    messages.some((found) => found.includes('receivers.otlp: feeds')),
    'a pipeline of another signal is no second user of the receiver',
  );
});

t.test('does not take a name for one of the Collector at another place', async (t) => {
  const messages = await messagesOf(`
receivers:
  otlp: {idle_timeout: 1s, protocols: {http: {endpont: 127.0.0.1:4318, constructor: 1}}}
exporters:
  debug: {verbosity: detaild}
`);
  t.notMatch(messages.join('\n'), 'OpenTelemetry Collector');
  t.match(messages.join('\n'), 'did you mean "endpoint"?');
});
