import type { ComponentKind } from '../component/component.ts';
import type { Path } from './tree.ts';

/**
 * Names of the OpenTelemetry Collector that a configuration written for it may have, and that are none here, each with
 * the text to write instead.
 */

const LEAVE_OUT = 'leave it out';
const KEEP = 'keep a Collector for it, in front';
const BEHIND = 'keep a Collector for it, behind an otlphttp';

/** A configuration without the field would store what the Collector removes. */
const NO_ALLOW_LIST = `only listed names are redacted here, and all others are stored: ${KEEP}`;

/** Common types, by kind. */
const TYPES: Readonly<Record<ComponentKind, Readonly<Record<string, string>>>> = {
  receiver: {
    ...each('jaeger zipkin kafka prometheus filelog hostmetrics', KEEP),
    otlpjsonfile: 'send the files with `tracectl send otlp --file`',
  },
  processor: {
    batch: `${LEAVE_OUT}, because requests are stored and sent on as they arrive`,
    memory_limiter: `${LEAVE_OUT}, or set service.limits.in_flight_bytes`,
    ...each('attributes resource transform span', `use redaction to mask values, or ${KEEP}`),
    ...each('resourcedetection k8sattributes groupbytrace groupbyattrs', KEEP),
    ...each('probabilistic_sampler tail_sampling', KEEP),
    ...each('cumulativetodelta metricstransform', `${LEAVE_OUT}, because metrics are not accepted`),
  },
  connector: {
    forward: 'use disk_queue between two pipelines, or name several exporters in one',
    ...each('routing spanmetrics servicegraph count failover', KEEP),
  },
  exporter: {
    ...each('otlp otlp_grpc', 'use otlphttp, with the port for HTTP, which usually is 4318'),
    logging: 'use debug',
    ...each('kafka zipkin loadbalancing clickhouse datadog awsxray', BEHIND),
    jaeger: 'use otlphttp, which Jaeger takes on port 4318',
    ...each('prometheus prometheusremotewrite', 'see service.telemetry.metrics.address'),
  },
  extension: {
    ...each(
      'pprof zpages',
      `${LEAVE_OUT}; service.telemetry.metrics and the web UI show what passes`,
    ),
    ...each(
      'basicauth bearertokenauth oidc',
      'use the processor auth; in an exporter, set headers',
    ),
    headers_setter: 'set headers in the exporter',
    memory_limiter: 'set service.limits.in_flight_bytes',
    opamp: LEAVE_OUT,
    ...each('db_storage redis_storage', 'use file_storage'),
  },
};

/** Fields, by the last steps of their path. Only a name that the section does not have is looked up. */
const FIELDS: Readonly<Record<string, string>> = {
  ...each('include_metadata middlewares cookies http2_read_idle_timeout', LEAVE_OUT),
  ...each('read_buffer_size write_buffer_size force_attempt_http2 max_idle_conns', LEAVE_OUT),
  ...each('http2_ping_timeout max_idle_conns_per_host', LEAVE_OUT),
  ...each('http.idle_timeout http.keep_alives_enabled http.response_headers', LEAVE_OUT),
  ...each('http.compression_algorithms grpc.transport', LEAVE_OUT),
  'http.cors': 'let a proxy in front answer browsers',
  'http.traces_url_path': 'send to /v1/traces',
  ...each('http.logs_url_path http.metrics_url_path', LEAVE_OUT),
  'http.max_request_body_size': `${LEAVE_OUT}: a body has at most 25 MiB`,
  ...each('http.auth grpc.auth', 'use the processor auth'),
  'otlphttp.auth': 'set headers',
  ...each('logs_endpoint metrics_endpoint profiles_endpoint', 'only traces are sent'),
  ...each('sending_queue.blocking', 'set block_on_overflow'),
  'sending_queue.metadata_keys': LEAVE_OUT,
  ...each('ca_pem cert_pem key_pem', 'name a file: ca_file, cert_file, key_file'),
  ...each('cipher_suites curve_preferences max_version', `${LEAVE_OUT}, or set min_version`),
  'tls.reload_interval': LEAVE_OUT,
  include_system_ca_certs_pool: `${LEAVE_OUT}, or add the authorities to ca_file`,
  'file_storage.fsync': `${LEAVE_OUT}: each write is synced`,
  ...each('file_storage.timeout file_storage.compaction', LEAVE_OUT),
  'health_check.check_collector_pipeline': `${LEAVE_OUT}, and ask /readyz`,
  'health_check.response_body': LEAVE_OUT,
  'rotation.localtime': `${LEAVE_OUT}: times are in UTC`,
  ...each('file.flush_interval file.append file.group_by', LEAVE_OUT),
  'file.encoding': 'set format',
  'debug.use_internal_logger': LEAVE_OUT,
  'redaction.blocked_values': 'list them in patterns',
  ...each('redaction.blocked_key_patterns redaction.redact_all_types', 'list the names in keys'),
  'redaction.hash_function': 'set keys_action or action to hash, and hash_key',
  ...each('redaction.allow_all_keys redaction.allowed_keys', NO_ALLOW_LIST),
  ...each('redaction.ignored_keys redaction.ignored_key_patterns', LEAVE_OUT),
  ...each('redaction.allowed_values redaction.summary', LEAVE_OUT),
  ...each(
    'filter.traces filter.spans filter.trace_conditions',
    'use include, exclude or conditions',
  ),
  ...each('filter.logs filter.metrics filter.error_mode', LEAVE_OUT),
  'metrics.readers': 'set address, which serves them for Prometheus',
  ...each('metrics.views telemetry.resource telemetry.traces', LEAVE_OUT),
  ...each('logs.development logs.sampling logs.initial_fields logs.processors', LEAVE_OUT),
  ...each('logs.disable_caller logs.disable_stacktrace', LEAVE_OUT),
  ...each('logs.output_paths logs.error_output_paths', `${LEAVE_OUT}: logs go to stderr`),
};

/** Values, by the last steps of their path. */
const VALUES: Readonly<Record<string, string>> = {
  ...each('metrics.level=basic metrics.level=detailed', 'write normal'),
  ...each('compression=snappy compression=zlib compression=deflate', 'write gzip'),
  ...each('compression=lz4 compression=x-snappy-framed', 'write gzip'),
};

/** `; …`, a hint for a type of the Collector's, or nothing. */
export function typeHint(kind: ComponentKind, type: string): string {
  const instead = Object.hasOwn(TYPES[kind], type) ? TYPES[kind][type] : undefined;
  return instead === undefined
    ? ''
    : `; it is a type of the OpenTelemetry Collector: ${instead}; see docs/with-the-opentelemetry-collector.md#instead-of-a-collector`;
}

/** `; …`, a hint for a field of the Collector's, or nothing. The path begins at the root of the configuration. */
export function fieldHint(path: Path): string {
  const instead = lookUp(FIELDS, path, '');
  return instead === undefined ? '' : `; it is a field of the OpenTelemetry Collector: ${instead}`;
}

/** `; …`, a hint for a value of the Collector's, or nothing. The path begins at the root of the configuration. */
export function valueHint(path: Path, value: string): string {
  const instead = lookUp(VALUES, path, `=${value}`);
  return instead === undefined ? '' : `; it is a value of the OpenTelemetry Collector: ${instead}`;
}

/** The entry for the most of the last steps of the path. The second step is an id, of which the type counts. */
function lookUp(
  table: Readonly<Record<string, string>>,
  path: Path,
  suffix: string,
): string | undefined {
  const steps = path.map((step, at) => {
    const type = at === 1 ? String(step).replace(/\/.*$/s, '') : String(step);
    return type === 'otlp_http' ? 'otlphttp' : type;
  });
  for (let from = 0; from < steps.length; from++) {
    const name = steps.slice(from).join('.') + suffix;
    if (Object.hasOwn(table, name)) return table[name];
  }
  return undefined;
}

function each(names: string, instead: string): Record<string, string> {
  return Object.fromEntries(names.split(' ').map((name) => [name, instead]));
}
