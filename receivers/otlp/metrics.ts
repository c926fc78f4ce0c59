import type { RequestHead, Settings } from '../../src/component/component.ts';
import { hourly } from '../../src/component/line-spacing.ts';
import type { DiscardProtocol } from '../../src/http/discard.ts';
import type { Answer } from '../../src/http/exchange.ts';
import { Refusal } from '../../src/model/errors.ts';
import { pointsInJson, pointsInProto } from '../../src/model/otlp/count-points.ts';
import { renderPartialSuccess } from '../../src/model/otlp/response.ts';

/** The method that exporters of metrics call (opentelemetry-proto, metrics_service.proto). */
export const METRICS_EXPORT_PATH =
  '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export';

const MESSAGE =
  'Metrics are not stored: this service takes traces and logs about LLM calls. Set OTEL_METRICS_EXPORTER=none to stop sending them.';
const JSON_TYPE = 'application/json';

/**
 * Metrics are answered with success, of which every data point is rejected: an exporter that is configured for all signals
 * would otherwise report an error for each of its requests.
 */
export function metricsProtocol(
  { clock, logger }: Pick<Settings, 'clock' | 'logger'>,
  checkHead: DiscardProtocol['checkHead'],
  answerType: (head: RequestHead) => string,
): DiscardProtocol {
  const logLine = hourly(clock, () => logger.info({}, 'Metrics arrive and are not stored'));
  return {
    checkHead,
    render(head, body): Answer {
      const contentType = answerType(head);
      const points = body === undefined ? 0 : pointsIn(body, contentType);
      logLine();
      const isEmpty = body !== undefined && points === 0;
      return {
        status: 200,
        contentType,
        body: renderPartialSuccess(
          'rejectedDataPoints',
          points,
          isEmpty ? '' : MESSAGE,
          contentType,
        ),
      };
    },
  };
}

function pointsIn(body: Buffer, contentType: string): number {
  const points = contentType === JSON_TYPE ? pointsInJson(body) : pointsInProto(body);
  if (points !== undefined) return points;
  throw new Refusal('invalid_request', 'The body is no ExportMetricsServiceRequest.');
}
