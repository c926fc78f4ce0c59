import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { encodeTraces, type WireAttribute, type WireSpan } from '../test/e2e/otlp-messages.ts';

/** A family of bodies of one shape; each `next()` has a trace id of its own, so that rows are new rows. */
export type Payload = {
  readonly name: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly itemsPerRequest: number;
  next(): Buffer;
};

/** OTLP protobuf, gzip: `spans` spans with an input of about `inputBytes`. */
export function otlp(spans: number, inputBytes: number): Payload {
  const traceId = randomBytes(16);
  const template = encodeTraces({
    resourceSpans: [
      {
        resource: { attributes: attributes({ 'service.name': 'shop', 'host.name': 'host-12' }) },
        scopeSpans: [
          { scope: { name: 'bench', version: '1' }, spans: spansOf(traceId, spans, inputBytes) },
        ],
      },
    ],
  });
  const body = retraced(template, traceId, () => randomBytes(16));
  return {
    name: `OTLP protobuf gzip, ${spans} spans, ${(template.length / spans / 1024).toFixed(1)} KiB each`,
    path: '/api/public/otel/v1/traces',
    headers: { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' },
    itemsPerRequest: spans,
    next: () => gzipSync(body()),
  };
}

/** Native events as JSON. */
export function native(events: number, inputBytes = 400): Payload {
  const traceId = hexId(16);
  const all = Array.from({ length: events }, (_, i) => ({
    observation_id: hexId(8),
    trace_id: traceId,
    operation: 'finish',
    kind: 'llm',
    status: 'success',
    name: `step ${i}`,
    start_time: '2026-01-02T03:04:05.123456Z',
    end_time: '2026-01-02T03:04:06.123456Z',
    inputs: { messages: [{ role: 'user', content: prose(inputBytes) }] },
    outputs: { choices: [{ message: { role: 'assistant', content: prose(200) } }] },
    metadata: { model: 'small-1', session: hexId(8), custom_fields: { tenant: 'acme', n: 3 } },
    context_metadata: { env: 'prod' },
    usage: { input_tokens: 100 + i, output_tokens: 45 },
  }));
  return jsonPayload(
    `native JSON, ${events} events`,
    '/api/v1/observations/batch',
    { events: all },
    traceId,
    events,
  );
}

/** The same content as runs, all of them creations. */
export function runs(count: number, inputBytes = 400): Payload {
  const traceId = hexId(16);
  const post = creations(traceId, count, inputBytes);
  return jsonPayload(
    `run batch, ${count} runs`,
    '/api/v1/runs/batch',
    { post, patch: [] },
    traceId,
    count,
  );
}

const BOUNDARY = '----LangSmithFormBoundary';

/** The same runs in parts, as LangSmith's clients send them by default. */
export function runParts(count: number, inputBytes = 400): Payload {
  const traceId = hexId(16);
  const parts = creations(traceId, count, inputBytes).flatMap((run) => {
    const { inputs, outputs, extra, ...rest } = run;
    const fields = Object.entries({ inputs, outputs, extra });
    const named = fields.map(([name, value]) => [`post.${run.id}.${name}`, value] as const);
    return [[`post.${run.id}`, rest] as const, ...named];
  });
  const texts = parts.map(
    ([name, value]) =>
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n` +
      `Content-Type: application/json\r\n\r\n${JSON.stringify(value)}\r\n`,
  );
  const template = Buffer.from(`${texts.join('')}--${BOUNDARY}--\r\n`);
  return {
    name: `runs in parts, ${count} runs`,
    path: '/api/v1/runs/multipart',
    headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
    itemsPerRequest: count,
    next: retraced(template, Buffer.from(traceId), () => Buffer.from(hexId(16))),
  };
}

function creations(traceId: string, count: number, inputBytes: number) {
  return Array.from({ length: count }, (_, i) => ({
    id: hexId(16),
    trace_id: traceId,
    run_type: 'llm',
    name: `step ${i}`,
    start_time: '2026-01-02T03:04:05.123456Z',
    end_time: '2026-01-02T03:04:06.123456Z',
    inputs: { messages: [{ role: 'user', content: prose(inputBytes) }] },
    outputs: { choices: [{ message: { role: 'assistant', content: prose(200) } }] },
    extra: {
      metadata: { model: 'small-1', session: hexId(8), custom_fields: { tenant: 'acme', n: 3 } },
    },
  }));
}

/** A few bodies in turn, where nothing reads the rows: compressing costs much. Each has other bytes and the same content. */
export function pooled(payload: Payload, size: number): Payload {
  const bodies: Buffer[] = [];
  let count = 0;
  return {
    ...payload,
    next: () => {
      const at = count++ % size;
      const body = bodies[at] ?? payload.next();
      bodies[at] = body;
      return unlike(body, count);
    },
  };
}

/** Gzip flag of a header with a file name. */
const FNAME = 8;
const GZIP_HEADER = 10;

/**
 * The same content in other bytes, so that a daemon does not take it for a repeated request: another file name in the header of
 * gzip, and other white space before JSON or before the first boundary.
 */
export function unlike(body: Buffer, number: number): Buffer {
  if (body.readUInt16BE(0) !== 0x1f8b) {
    const digits = number.toString(2).padStart(32, '0');
    const space = digits.replaceAll('0', ' ').replaceAll('1', '\t');
    const isInParts = body.subarray(0, 2).toString() === '--';
    return Buffer.concat([Buffer.from(isInParts ? `${space}\r\n` : space), body]);
  }
  const header = Buffer.from(body.subarray(0, GZIP_HEADER));
  header[3] = FNAME;
  const name = Buffer.from(`${number.toString(36).padStart(8, '0')}\0`);
  return Buffer.concat([header, name, body.subarray(GZIP_HEADER)]);
}

/** The whole request as it goes over the wire, keep-alive. */
export function wireRequest(
  payload: Pick<Payload, 'path' | 'headers'>,
  body: Buffer,
  key: string,
): Buffer {
  const headers = Object.entries(payload.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head =
    `POST ${payload.path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n` +
    `${headers.join('')}content-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

function jsonPayload(
  name: string,
  path: string,
  value: object,
  traceId: string,
  items: number,
): Payload {
  const template = Buffer.from(JSON.stringify(value));
  const body = retraced(template, Buffer.from(traceId), () => Buffer.from(hexId(16)));
  const each = (template.length / items / 1024).toFixed(1);
  return {
    name: `${name}, ${each} KiB each`,
    path,
    headers: { 'content-type': 'application/json' },
    itemsPerRequest: items,
    next: body,
  };
}

/** Copies of a body, each with another trace id. */
function retraced(template: Buffer, traceId: Buffer, fresh: () => Buffer): () => Buffer {
  const places: number[] = [];
  for (let at = template.indexOf(traceId); at >= 0; at = template.indexOf(traceId, at + 1)) {
    places.push(at);
  }
  return () => {
    const copy = Buffer.from(template);
    const id = fresh();
    for (const at of places) id.copy(copy, at);
    return copy;
  };
}

function spansOf(traceId: Buffer, count: number, inputBytes: number): WireSpan[] {
  const root = hexId(8);
  return Array.from({ length: count }, (_, i) => ({
    traceId: traceId.toString('hex'),
    spanId: i === 0 ? root : hexId(8),
    ...(i === 0 ? {} : { parentSpanId: root }),
    name: `chat step ${i}`,
    kind: 3,
    startTimeUnixNano: String(1763672400000000000n + BigInt(i) * 1000003n),
    endTimeUnixNano: String(1763672400025000000n + BigInt(i) * 1000003n),
    attributes: attributes({
      'openinference.span.kind': 'LLM',
      'llm.model_name': 'small-1-2026-01-02',
      'input.value': prose(inputBytes),
      'output.value': prose(200),
      'llm.token_count.prompt': 123 + i,
      'llm.token_count.completion': 45,
      'llm.invocation_parameters': '{"temperature":0.2,"max_tokens":512}',
      'session.id': hexId(8),
      'user.id': hexId(4),
    }),
    status: { code: 1 },
  }));
}

export function attributes(values: Readonly<Record<string, string | number>>): WireAttribute[] {
  return Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === 'string' ? { stringValue: value } : { intValue: value },
  }));
}

const WORDS =
  'answer question tool model search result order customer price table column select where limit trace span token usage step think reason observe final because however data schema field value list map call name code class loop cache store url header status document summary plan budget memory agent context'.split(
    ' ',
  );

/** Text that compresses about as prompts do. */
export function prose(length: number): string {
  let text = '';
  while (text.length < length) {
    text += WORDS[Math.floor(Math.random() * WORDS.length)];
    text += Math.random() < 0.1 ? `, ${Math.floor(Math.random() * 1e6)} ` : ' ';
  }
  return text.slice(0, length);
}

function hexId(bytes: number): string {
  return randomBytes(bytes).toString('hex');
}
