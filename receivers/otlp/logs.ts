import type { RequestHead, Settings } from '../../src/component/component.ts';
import { hourly } from '../../src/component/line-spacing.ts';
import type { Answer } from '../../src/http/exchange.ts';
import type { Protocol } from '../../src/http/ingest.ts';
import type { Prepared } from '../../src/http/prepare.ts';
import { MAX_DECODED_WEIGHT, MAX_WEIGHT, WEIGHT_OF_KEY } from '../../src/model/otlp/fields.ts';
import { messageOf, renderPartialSuccess } from '../../src/model/otlp/response.ts';
import type { Rejection } from '../../src/model/rejection.ts';

/** The method that exporters of logs call (opentelemetry-proto, logs_service.proto). */
export const LOGS_EXPORT_PATH = '/opentelemetry.proto.collector.logs.v1.LogsService/Export';

type LogCounts = NonNullable<Prepared['logs']>;
type LogsProtocol = Pick<Protocol, 'logs' | 'maxItems' | 'renderEmpty' | 'renderAccepted'>;

/**
 * The part of the protocol that logs have apart from traces. The events of LLM calls become spans; all other records are rejected in a
 * partial success, because a client would send them again after an error.
 */
export function logsProtocol(
  { clock, logger, metrics }: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  maxItems: number,
  answerType: (head: RequestHead) => string,
): LogsProtocol {
  const counter = metrics.counter(
    'tracectl_otlp_unsupported_log_records_total',
    'Log records that were rejected because they are no events of LLM calls.',
  );
  const repeated = metrics.counter(
    'tracectl_otlp_repeated_log_records_total',
    'Log records that were rejected because a span of their client has the same content.',
  );
  const heavy = metrics.counter(
    'tracectl_otlp_heavy_log_records_total',
    'Log records that were rejected because they, or the request up to them, have too many keys of attributes.',
  );
  const logLine = hourly(clock, () => {
    logger.info({}, 'Log records that are no events of LLM calls arrive and are rejected');
  });
  const render = (head: RequestHead, rejections: readonly Rejection[], logs?: LogCounts) => {
    const unsupported = (logs?.unsupported ?? 0) + (logs?.detached ?? 0);
    if (unsupported > 0) {
      counter.add(unsupported);
      logLine();
    }
    if (logs !== undefined && logs.repeated > 0) repeated.add(logs.repeated);
    if (logs !== undefined && logs.heavy > 0) heavy.add(logs.heavy);
    return renderLogs(rejections, logs, answerType(head));
  };
  return {
    logs: true,
    maxItems,
    renderEmpty: (head, logs) => render(head, [], logs),
    renderAccepted: (batch, _index, head, logs) => render(head, batch.rejections, logs),
  };
}

function renderLogs(
  rejections: readonly Rejection[],
  logs: LogCounts | undefined,
  contentType: string,
): Answer {
  let rejected = (logs?.unsupported ?? 0) + (logs?.detached ?? 0) + (logs?.heavy ?? 0);
  rejected += logs?.repeated ?? 0;
  for (const { index } of rejections) rejected += logs?.recordsOf[index] ?? 0;
  const texts = sentences(logs);
  if (rejections.length > 0) texts.push(messageOf(rejections.map((each) => named(each, logs))));
  const body = renderPartialSuccess('rejectedLogRecords', rejected, texts.join(' '), contentType);
  return { status: 200, contentType, body };
}

function sentences(logs: LogCounts | undefined): string[] {
  const texts: string[] = [];
  if (logs !== undefined && logs.unsupported > 0) {
    texts.push(
      `Log records are stored only if they are events of LLM calls: gen_ai.*, claude_code.* and codex.*; ${logs.unsupported} are not.`,
    );
  }
  if (logs !== undefined && logs.detached > 0) {
    texts.push(
      `${logs.detached} gen_ai events have no valid trace id and span id to join them to.`,
    );
  }
  if (logs !== undefined && logs.repeated > 0) {
    texts.push(`${logs.repeated} gen_ai events repeat spans of their client.`);
  }
  if (logs !== undefined && logs.heavy > 0) {
    texts.push(
      `${logs.heavy} have more than ${MAX_WEIGHT / WEIGHT_OF_KEY} keys of attributes, or are behind ${MAX_DECODED_WEIGHT / WEIGHT_OF_KEY} keys in the request.`,
    );
  }
  return texts;
}

/** The rules name the path of a span, which the client did not send. */
function named({ index, code, reason }: Rejection, logs: LogCounts | undefined) {
  const place = `log record ${logs?.firstOf[index] ?? index}`;
  return {
    code,
    reason: reason.replace(/^resourceSpans\[\d+\]\.scopeSpans\[\d+\]\.spans\[\d+\]/, place),
  };
}
