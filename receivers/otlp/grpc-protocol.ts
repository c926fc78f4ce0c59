import type { RequestHead } from '../../src/component/component.ts';
import type { Answer } from '../../src/http/exchange.ts';
import type { Protocol } from '../../src/http/ingest.ts';
import { mediaTypeOf } from '../../src/http/media.ts';
import type { Format, SealedBatch, SentEncoding } from '../../src/model/batch.ts';
import { Refusal } from '../../src/model/errors.ts';
import { renderExportResponse } from '../../src/model/otlp/response.ts';

/** The method that exporters call (opentelemetry-proto, trace_service.proto). */
export const EXPORT_PATH = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

const TYPES = ['application/grpc', 'application/grpc+proto'];
export const GRPC_ANSWER_TYPE = 'application/x-protobuf';

/** OTLP/gRPC: the message is the body of OTLP/HTTP in protobuf, and so is the answer. */
export function otlpGrpcProtocol(maxSpans: number, maxBytes: number): Protocol {
  return {
    maxItems: maxSpans,
    maxBytes,
    checkHead: checkGrpcHead,
    renderEmpty: () => renderAccepted([]),
    renderAccepted: (batch) => renderAccepted(batch.rejections),
  };
}

export function checkGrpcHead(head: RequestHead): { format: Format; encoding: SentEncoding } {
  if (!TYPES.includes(mediaTypeOf(head))) {
    throw new Refusal(
      'unsupported_content_type',
      `The content type must be ${TYPES.join(' or ')}.`,
    );
  }
  const [encoding = 'identity', ...more] = head.headers.get('grpc-encoding') ?? [];
  const isKnown = encoding === 'identity' || encoding === 'gzip' || encoding === 'deflate';
  if (more.length > 0 || !isKnown) {
    throw new Refusal(
      'unsupported_encoding',
      'The message encoding must be identity, gzip or deflate.',
    );
  }
  return { format: 'otlp_proto', encoding };
}

function renderAccepted(rejections: SealedBatch['rejections']): Answer {
  return {
    status: 200,
    contentType: GRPC_ANSWER_TYPE,
    body: renderExportResponse(rejections, GRPC_ANSWER_TYPE),
  };
}
