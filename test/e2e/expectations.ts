import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, json, list, record } from './client.ts';
import type { Daemon } from './daemon.ts';
import { decodeResponse, decodeStatus } from './otlp-messages.ts';

/** One answered case, with access to the daemon behind the answer. */
export type Observed = {
  readonly daemon: Daemon;
  /** Public id of the project that the keys belong to. */
  readonly projectId: string;
  readonly answer: Answer;
  /** The body as it was sent. */
  readonly sent: Buffer | undefined;
  /** The credential of the request, where it had one. */
  readonly token: string | undefined;
  /** The connection was closed by the server (raw requests only). */
  readonly closed: boolean;
};

/**
 * The meanings of the words in cases.json. A word is `name`, `name=value` or `name<value`. Each checks one
 * property, and throws a sentence when it does not hold.
 */
export async function hold(word: string, seen: Observed): Promise<void> {
  const { name, value } = parseWord(word);
  const check = checks[name];
  if (check === undefined) throw new Error(`cases.json has the unknown word ${word}`);
  await check(seen, value);
}

function parseWord(word: string): { name: string; value: string } {
  const match = /^([^=<]+?)(!=|=|<)(.*)$/s.exec(word);
  if (match === null || word === 'results[].status!=queued') return { name: word, value: '' };
  return { name: match[1] ?? '', value: match[3] ?? '' };
}

type Check = (seen: Observed, value: string) => Promise<void> | void;

const checks: Readonly<Record<string, Check>> = {
  any: () => undefined,
  'no-5xx': ({ answer }) => must(answer.status < 500, `status is ${answer.status}`),
  empty: ({ answer }) => same(answer.body.length, 0, 'length of the body'),
  contains: ({ answer }, text) => must(text_(answer).includes(text), `the body lacks ${text}`),
  'body-must-not-contain-token': tokenStaysSecret,
  'socket-closed': ({ closed }) => must(closed, 'the connection was left open'),
  // Guards against quadratic work, which takes minutes; not a measurement, so a loaded machine may take ten times as long.
  latency: ({ answer }, limit) =>
    must(answer.ms < 10 * Number.parseInt(limit, 10), `it took ${answer.ms} ms`),

  'has:hourly_ingest_reset_at': ({ answer }) => {
    const resets = String(record(json(answer)).hourly_ingest_reset_at);
    must(/^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/.test(resets), `hourly_ingest_reset_at is ${resets}`);
  },
  'native-envelope': nativeEnvelope,
  'error-object': errorObject,
  accepted: ({ answer }, count) => same(envelope(answer).accepted, Number(count), 'accepted'),
  rejected: ({ answer }, count) => same(envelope(answer).rejected, Number(count), 'rejected'),
  code: anyCode,
  'results[].status!=queued': ({ answer }) =>
    must(
      results(answer).length > 0 && results(answer).every((one) => one.status === 'rejected'),
      'an item is queued',
    ),
  'results.length': ({ answer }, count) => same(results(answer).length, Number(count), 'results'),
  'results[0].id': ({ answer }, id) => same(results(answer)[0]?.id, id, 'results[0].id'),
  'reason-contains': ({ answer }, text) =>
    must(reasons(answer).includes(text), `no reason has ${text}: ${reasons(answer)}`),
  'reason-excludes': ({ answer }, texts) => {
    for (const text of texts.split(',')) {
      must(!text_(answer).includes(text), `the answer echoes ${text}`);
    }
  },
  'logs-exclude': ({ daemon }, text) =>
    must(!(daemon.stdout() + daemon.stderr()).includes(text), `a log line has ${text}`),

  'rpc-status-protobuf': ({ answer }) => {
    contentType(answer, 'application/x-protobuf');
    const { code, message } = decodeStatus(answer.body);
    must(code > 0, 'the status has no code');
    must(message !== '', 'the status has no message');
    same(code, rpcCode(answer.status), 'code of the status');
  },
  'rpc-status-json': ({ answer }) => {
    contentType(answer, 'application/json');
    const status = record(json(answer));
    same(status.code, rpcCode(answer.status), 'code');
    must(typeof status.message === 'string' && status.message !== '', 'no message');
  },
  'otlp-success-protobuf': ({ answer }) => {
    contentType(answer, 'application/x-protobuf');
    same(decodeResponse(answer.body).rejectedSpans, 0, 'rejected spans');
    same(answer.body.length, 0, 'length of an empty response');
  },
  'otlp-partial-protobuf': ({ answer }) => {
    contentType(answer, 'application/x-protobuf');
    const { rejectedSpans, errorMessage } = decodeResponse(answer.body);
    must(rejectedSpans > 0, 'no span was rejected');
    must(errorMessage !== '', 'no error message');
  },
  'otlp-partial-json': ({ answer }) => {
    contentType(answer, 'application/json');
    must(partialSuccess(answer).errorMessage !== '', 'no error message');
  },
  rejectedSpans: ({ answer }, count) =>
    same(partialSuccess(answer).rejectedSpans, Number(count), 'rejected spans'),
  'msg-contains': ({ answer }, text) => {
    const { errorMessage } = partialSuccess(answer);
    must(errorMessage.includes(text), `the message lacks ${text}: ${errorMessage}`);
  },
  'json:{}': ({ answer }) => {
    contentType(answer, 'application/json');
    same(text_(answer).trim(), '{}', 'body');
  },

  'stored-exact': storedExact,
  'stored-in': async (seen) =>
    same((await observation(seen)).project_id, seen.projectId, 'project_id'),
  'stored.kind': async (seen, kind) => same((await observation(seen)).kind, kind, 'kind'),
  'stored.status': async (seen, status) => same((await observation(seen)).status, status, 'status'),
  'stored.event_version': async (seen, digits) =>
    same((await observation(seen)).event_version, digits, 'event_version'),
  'stored.custom_fields': async (seen, text) =>
    same(JSON.stringify((await observation(seen)).custom_fields), text, 'custom_fields'),
  'stored.custom_fields.has': async (seen, key) =>
    must(
      Object.hasOwn(record((await observation(seen)).custom_fields), key),
      `custom_fields lacks ${key}`,
    ),
  'instant-exact': instantExact,
  'two-observations': twoObservations,
  'probe-object-not-polluted': notPolluted,
};

function tokenStaysSecret({ answer, token = '' }: Observed): void {
  const secret = token.replace(/^\S+ /, '').replaceAll('"', '').trim();
  if (secret.length >= 8) must(!text_(answer).includes(secret), 'the body repeats the token');
}

/** Spec 2.5, for 202 and for a refusal that itemizes. */
function nativeEnvelope({ answer, sent }: Observed): void {
  contentType(answer, 'application/json');
  const body = envelope(answer);
  const items = results(answer);
  same(body.status, answer.status === 202 ? 'queued' : 'rejected', 'status');
  const queued = items.filter((one) => one.status === 'queued');
  same(body.accepted, queued.length, 'accepted against results');
  same(body.rejected, items.length - queued.length, 'rejected against results');
  const count = itemsSent(sent);
  if (count !== undefined) same(items.length, count, 'results against items');
  items.forEach((one, index) => {
    same(one.index, index, 'index');
    if (one.status === 'queued') {
      must(typeof one.id === 'string' && one.id !== '', 'a queued item has no id');
      must(/^raw_[0-9A-Z]{26}_\d+$/.test(String(one.raw_event_id)), 'no raw_event_id');
    } else {
      same(one.status, 'rejected', 'status of an item');
      must(typeof one.code === 'string', 'a rejected item has no code');
      must(typeof one.reason === 'string' && one.reason !== '', 'no reason');
    }
  });
}

/** A refused request: no item accepted, a code and a message. */
function errorObject({ answer }: Observed): void {
  contentType(answer, 'application/json');
  const body = envelope(answer);
  must(/^[a-z_]+$/.test(String(body.code)), `code is ${String(body.code)}`);
  must(typeof body.message === 'string' && body.message !== '', 'no message');
  same(body.accepted, 0, 'accepted');
}

/** An item's code in the native envelope, the status code in an OTLP answer. */
function anyCode({ answer }: Observed, code: string): void {
  if (/^\d+$/.test(code)) {
    const isJson = String(answer.headers['content-type']).startsWith('application/json');
    const found = isJson ? record(json(answer)).code : decodeStatus(answer.body).code;
    same(found, Number(code), 'code');
    return;
  }
  const codes = results(answer).map((one) => one.code);
  must(codes.includes(code), `the codes are ${codes.join()}`);
}

/** The exact text that was sent, in an observation with exactly this id. */
async function storedExact(seen: Observed): Promise<void> {
  const text = /^\{"events":\[(.*)\]\}$/s.exec(seen.sent?.toString('utf8') ?? '')?.[1] ?? '';
  const rawId = String(results(seen.answer)[0]?.raw_event_id);
  const raw = await read(seen, `/api/v1/raw-events/${rawId}`);
  must(
    text_(raw).includes(text),
    `the raw event is not what was sent: ${text_(raw).slice(0, 300)}`,
  );
  const found = await observation(seen);
  const event = record(JSON.parse(text));
  same(found.id, event.observation_id ?? event.id, 'id');
  const version = /"event_version":"?(\d+)"?/.exec(text)?.[1];
  if (version !== undefined) same(found.event_version, version, 'event_version');
}

/** Dates are compared as nanoseconds, computed here without the product's grammar. */
async function instantExact(seen: Observed): Promise<void> {
  const found = await observation(seen);
  const event = firstEvent(seen);
  for (const name of ['start_time', 'end_time']) {
    if (event[name] === undefined) continue;
    same(nanos(String(found[name])), nanos(String(event[name])), name);
    must(/Z$/.test(String(found[name])), `${name} is not in UTC: ${String(found[name])}`);
  }
}

async function twoObservations(seen: Observed): Promise<void> {
  const spans = [...text_(seen.sent).matchAll(/"traceId":"(\w+)","spanId":"(\w+)"/g)];
  same(spans.length, 2, 'spans');
  for (const [, traceId, spanId] of spans) {
    const path = `/api/v1/observations/${traceId}:${spanId}?trace_id=${traceId}`;
    const found = record(json(await read(seen, path)));
    same(found.trace_id, traceId, 'trace_id');
    same(record(found.external).span_id, spanId, 'external.span_id');
  }
}

/** A polluted prototype would show in objects that never had the property. */
async function notPolluted(seen: Observed): Promise<void> {
  const { text } = await observationText(seen);
  must(text.includes('"__proto__":{"polluted":1}'), 'the key is gone from the metadata');
  const me = await seen.daemon.call({ path: '/api/v1/me' });
  must(!text_(me).includes('polluted'), 'another answer has the property');
  same(me.status, 200, 'status of another request');
}

async function observation(seen: Observed): Promise<Record<string, unknown>> {
  return record(JSON.parse((await observationText(seen)).text));
}

async function observationText(seen: Observed): Promise<{ text: string }> {
  const otlp = /"traceId":"(\w+)","spanId":"(\w+)"/.exec(text_(seen.sent));
  const id = otlp === null ? String(results(seen.answer)[0]?.id) : `${otlp[1]}:${otlp[2]}`;
  const trace = otlp === null ? String(firstEvent(seen).trace_id) : String(otlp[1]);
  const path = `/api/v1/observations/${encodeURIComponent(id)}?trace_id=${encodeURIComponent(trace)}`;
  return { text: text_(await read(seen, path)) };
}

/** Reads until the pipeline has stored the acknowledged data. */
async function read({ daemon }: Observed, path: string): Promise<Answer> {
  for (let attempt = 0; ; attempt++) {
    const answer = await daemon.call({ path });
    if (answer.status === 200) return answer;
    must(attempt < 250, `GET ${path.slice(0, 200)}: ${answer.status} ${text_(answer)}`);
    await sleep(20);
  }
}

function firstEvent(seen: Observed): Record<string, unknown> {
  return record(list(record(JSON.parse(text_(seen.sent))).events)[0]);
}

function itemsSent(sent: Buffer | undefined): number | undefined {
  try {
    const body = record(JSON.parse(text_(sent)));
    if (body.events !== undefined) return list(body.events).length;
    if (body.post !== undefined || body.patch !== undefined) {
      return list(body.post ?? []).length + list(body.patch ?? []).length;
    }
    return 1;
  } catch {
    return undefined;
  }
}

function envelope(answer: Answer): Record<string, unknown> {
  return record(json(answer));
}

function results(answer: Answer): Record<string, unknown>[] {
  return list(envelope(answer).results).map(record);
}

function reasons(answer: Answer): string {
  return results(answer)
    .map((one) => one.reason ?? '')
    .join('\n');
}

function partialSuccess(answer: Answer): { rejectedSpans: number; errorMessage: string } {
  if (!String(answer.headers['content-type']).startsWith('application/json')) {
    return decodeResponse(answer.body);
  }
  const partial = record(record(json(answer)).partialSuccess);
  return {
    rejectedSpans: Number(partial.rejectedSpans),
    errorMessage: String(partial.errorMessage ?? ''),
  };
}

function rpcCode(status: number): number {
  const codes: Readonly<Record<number, number>> = {
    400: 3,
    401: 16,
    402: 8,
    403: 7,
    404: 5,
    405: 12,
    409: 10,
    413: 3,
    415: 3,
    429: 8,
    503: 14,
  };
  return codes[status] ?? -1;
}

/** Nanoseconds since the epoch of an ISO 8601 instant. */
export function nanos(text: string): bigint {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (match === null) throw new Error(`${text} is no instant`);
  const seconds = BigInt(Date.parse(`${match[1]}${match[3]}`)) * 1_000_000n;
  return seconds + BigInt((match[2] ?? '').padEnd(9, '0').slice(0, 9));
}

function contentType(answer: Answer, wanted: string): void {
  const found = String(answer.headers['content-type']);
  must(found.startsWith(wanted), `the content type is ${found}: ${text_(answer).slice(0, 200)}`);
}

function text_(of: Answer | Buffer | undefined): string {
  if (of === undefined) return '';
  return (Buffer.isBuffer(of) ? of : of.body).toString('utf8');
}

function must(holds: boolean, sentence: string): void {
  if (!holds) throw new Error(sentence);
}

function same(found: unknown, wanted: unknown, what: string): void {
  if (!Object.is(found, wanted)) {
    throw new Error(
      `${what}: ${String(found).slice(0, 300)} instead of ${String(wanted).slice(0, 300)}`,
    );
  }
}
