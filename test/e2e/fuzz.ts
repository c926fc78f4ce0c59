import { randomBytes, randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { type Answer, json, list, record } from './client.ts';
import { type Daemon, prepareDaemon, total } from './daemon.ts';
import {
  countLogRecords,
  countSpans,
  decodeResponse,
  encodeTraces,
  encodeWireLogs,
  logRecordsOf,
  spansOf,
  type WireLogs,
  type WireTraces,
} from './otlp-messages.ts';

/**
 * Sends broken variants of good bodies to the running daemon and asks a JSON parser and a protobuf library
 * what they think of the same bytes: refused here must be refused there, with the same number of items.
 *
 *   node test/e2e/fuzz.ts --seconds 60
 */
export type Findings = { readonly requests: number; readonly problems: readonly string[] };

export async function fuzz(seconds: number): Promise<Findings> {
  const daemon = await prepareDaemon();
  try {
    await daemon.start();
    const pid = daemon.pid();
    const problems: string[] = [];
    const end = Date.now() + seconds * 1000;
    let requests = 0;
    let accepted = 0;
    while (Date.now() < end && problems.length < 20 && daemon.running()) {
      const cases = Array.from({ length: 16 }, () => makers[requests++ % makers.length]?.());
      const taken = await Promise.all(
        cases.map(async (one) => (one === undefined ? 0 : attempt(daemon, one, problems))),
      );
      accepted = taken.reduce((sum, count) => sum + count, accepted);
    }
    if (!daemon.running() || daemon.pid() !== pid)
      problems.push(`the daemon died:\n${daemon.stderr()}`);
    const counted = total(await daemon.metrics(), 'tracectl_receiver_accepted_items_total');
    if (counted !== accepted) problems.push(`${counted} items counted, ${accepted} acknowledged`);
    return { requests, problems };
  } finally {
    await daemon.remove();
  }
}

const NATIVE = '/api/v1/observations/batch';
const OTLP = '/api/public/otel/v1/traces';
const LOGS = '/v1/logs';

/** The verdict of an independent reader of the same bytes: the number of items, or invalid. */
type Opinion = number | 'broken';
type Attempt = {
  readonly path: string;
  readonly contentType: string;
  readonly body: Buffer;
  readonly opinion: Opinion;
};

const makers: readonly (() => Attempt)[] = [
  ...[nativeAttempt, otlpJsonAttempt, otlpProtoAttempt, logsJsonAttempt, logsProtoAttempt],
];

/** Resolves with the number of accepted items. */
async function attempt(daemon: Daemon, one: Attempt, problems: string[]): Promise<number> {
  const { path, body, contentType, opinion } = one;
  const say = (sentence: string) => {
    problems.push(`${path} ${contentType}: ${sentence}: ${body.toString('base64').slice(0, 1500)}`);
  };
  try {
    const headers = { 'content-type': contentType };
    const answer = await daemon.call({ method: 'POST', path, headers, body });
    if (![200, 202, 400].includes(answer.status)) say(`answered ${answer.status}`);
    if (answer.status !== 400 && opinion === 'broken') say('broken for another reader, and taken');
    return path === NATIVE ? nativeItems(answer, opinion, say) : otlpItems(answer, opinion);
  } catch (error) {
    say(`no answer: ${String(error)}`);
    return 0;
  }
}

/** The envelope has the number of items. */
function nativeItems(answer: Answer, opinion: Opinion, say: (sentence: string) => void): number {
  const results = list(record(json(answer)).results).map(record);
  const wanted = opinion === 'broken' ? 0 : opinion;
  if (results.length !== wanted) say(`${wanted} items, ${results.length} found`);
  return results.filter((one) => one.status === 'queued').length;
}

/**
 * An OTLP answer has no accepted count. The count is the independent reader's minus the rejected spans, and the sum
 * must equal the counter at the end. The library may accept a body that the daemon refuses, because it is more lenient.
 */
function otlpItems(answer: Answer, opinion: Opinion): number {
  if (answer.status !== 200 || opinion === 'broken') return 0;
  if (!String(answer.headers['content-type']).includes('json')) {
    return opinion - decodeResponse(answer.body).rejectedSpans;
  }
  const partial = record(json(answer)).partialSuccess;
  if (partial === undefined) return opinion;
  const { rejectedSpans, rejectedLogRecords } = record(partial);
  return opinion - Number(rejectedSpans ?? rejectedLogRecords);
}

function nativeAttempt(): Attempt {
  const events = Array.from({ length: randomInt(1, 4) }, (_, i) => ({
    id: `f-${i}`,
    trace_id: randomBytes(4).toString('hex'),
    operation: 'finish',
    kind: 'llm',
    status: 'ok',
    start_time: '2026-01-02T03:04:05.678Z',
    inputs: { text: 'ünï \u0000 "quoted" \\ ', list: [1, -0.5e3, true, null] },
    metadata: { custom_fields: { a: 1 } },
    event_version: 3,
  }));
  const body = mutate(Buffer.from(JSON.stringify({ events })), '{}[]",:\\u0e-+.1tfn \x00\x1f');
  const parsed = parseJson(body);
  const found =
    typeof parsed === 'object' && parsed !== null && 'events' in parsed ? parsed.events : undefined;
  const opinion = Array.isArray(found) ? found.length : 'broken';
  return { path: NATIVE, contentType: 'application/json', body, opinion };
}

function otlpJsonAttempt(): Attempt {
  const body = mutate(Buffer.from(JSON.stringify(traces())), '{}[]",:\\u0e-+.1tfn \x00\x1f');
  return {
    path: OTLP,
    contentType: 'application/json',
    body,
    opinion: opinionOf(() => spansOf(parseJson(body) as WireTraces).length),
  };
}

function otlpProtoAttempt(): Attempt {
  const body = mutate(encodeTraces(traces()), '\x00\x01\x0a\x12\x1a\x22\x2a\x4a\x7f\x80\xff');
  const opinion = opinionOf(() => countSpans(body));
  return { path: OTLP, contentType: 'application/x-protobuf', body, opinion };
}

function logsJsonAttempt(): Attempt {
  const body = mutate(Buffer.from(JSON.stringify(logs())), '{}[]",:\\u0e-+.1tfn \x00\x1f');
  const opinion = opinionOf(() => logRecordsOf(parseJson(body) as WireLogs).length);
  return { path: LOGS, contentType: 'application/json', body, opinion };
}

function logsProtoAttempt(): Attempt {
  const body = mutate(encodeWireLogs(logs()), '\x00\x01\x0a\x12\x1a\x2a\x32\x4a\x62\x7f\x80\xff');
  const opinion = opinionOf(() => countLogRecords(body));
  return { path: LOGS, contentType: 'application/x-protobuf', body, opinion };
}

/** Each record with its name intact is one item. */
function logs(): WireLogs {
  const logRecords = Array.from({ length: randomInt(1, 4) }, (_, i) => ({
    eventName: 'codex.sandbox_outcome',
    timeUnixNano: '1704067200000000000',
    body: { stringValue: 'text' },
    attributes: [
      { key: 'conversation.id', value: { stringValue: randomBytes(4).toString('hex') } },
      { key: 'n', value: { intValue: String(i) } },
      {
        key: 'list',
        value: { arrayValue: { values: [{ doubleValue: 0.5 }, { boolValue: true }] } },
      },
    ],
  }));
  return { resourceLogs: [{ scopeLogs: [{ logRecords }] }] };
}

function opinionOf(count: () => number): Opinion {
  try {
    return count();
  } catch {
    return 'broken';
  }
}

function traces(): WireTraces {
  const traceId = randomBytes(16).toString('hex');
  const spans = Array.from({ length: randomInt(1, 4) }, (_, i) => ({
    traceId,
    spanId: randomBytes(8).toString('hex'),
    name: `span ${i}`,
    startTimeUnixNano: '1704067200000000000',
    endTimeUnixNano: '1704067201000000000',
    attributes: [
      { key: 'input', value: { stringValue: '{"a":1}' } },
      { key: 'n', value: { intValue: '7' } },
      {
        key: 'list',
        value: { arrayValue: { values: [{ doubleValue: 0.5 }, { boolValue: true }] } },
      },
    ],
    status: { code: 1 },
  }));
  return { resourceSpans: [{ scopeSpans: [{ scope: { name: 's' }, spans }] }] };
}

/** One to three mutations: a byte changed, removed or inserted, a piece repeated or cut. */
function mutate(body: Buffer, alphabet: string): Buffer {
  let bytes = body;
  for (let i = randomInt(0, 4); i > 0; i--) {
    const at = randomInt(bytes.length + 1);
    const until = Math.min(bytes.length, at + randomInt(1, 9));
    const letter = Buffer.from(alphabet[randomInt(alphabet.length)] ?? '', 'latin1');
    const [before, piece, after] = [
      bytes.subarray(0, at),
      bytes.subarray(at, until),
      bytes.subarray(until),
    ];
    const wounds = [
      [before, letter, bytes.subarray(at + 1)],
      [before, after],
      [before, letter, bytes.subarray(at)],
      [before, piece, piece, after],
      [before],
      [before, randomBytes(1), bytes.subarray(at + 1)],
    ];
    bytes = Buffer.concat(wounds[randomInt(wounds.length)] ?? [bytes]);
  }
  return bytes;
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { seconds: { type: 'string', default: '60' } } });
  const { requests, problems } = await fuzz(Number(values.seconds));
  for (const problem of problems) process.stdout.write(`${problem}\n`);
  process.stdout.write(`${requests} requests, ${problems.length} problems\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
