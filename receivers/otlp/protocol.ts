import type { RequestHead } from '../../src/component/component.ts';
import type { Answer } from '../../src/http/exchange.ts';
import { refusalHeaders } from '../../src/http/exchange.ts';
import { acceptedEncoding, mediaTypeOf } from '../../src/http/media.ts';
import type { HttpProtocol } from '../../src/http/receiver.ts';
import type { Format, SealedBatch, SentEncoding } from '../../src/model/batch.ts';
import { Refusal } from '../../src/model/errors.ts';
import { renderExportResponse, renderRpcStatus } from '../../src/model/otlp/response.ts';

const PROTOBUF = 'application/x-protobuf';
const JSON_TYPE = 'application/json';

/** OTLP/HTTP: every answer, errors included, has the encoding of its request (spec 4.2). */
export function otlpProtocol(maxSpans: number): HttpProtocol {
  return {
    maxItems: maxSpans,
    checkHead: checkHttpHead,
    renderRefusal: renderOtlpRefusal,
    renderEmpty: (head) => renderAccepted([], answerType(head)),
    renderAccepted: (batch, _index, head) => renderAccepted(batch.rejections, answerType(head)),
  };
}

export function checkHttpHead(head: RequestHead): { format: Format; encoding: SentEncoding } {
  const type = mediaTypeOf(head);
  if (type !== PROTOBUF && type !== JSON_TYPE) {
    throw new Refusal(
      'unsupported_content_type',
      `The content type must be ${PROTOBUF} or ${JSON_TYPE}.`,
      { status: 415 },
    );
  }
  const format = type === PROTOBUF ? 'otlp_proto' : 'otlp_json';
  return { format, encoding: acceptedEncoding(head, ['identity', 'gzip', 'deflate']) };
}

/** Protobuf if the request has another type. */
export function answerType(head: RequestHead): string {
  return mediaTypeOf(head) === JSON_TYPE ? JSON_TYPE : PROTOBUF;
}

function renderAccepted(rejections: SealedBatch['rejections'], contentType: string): Answer {
  return { status: 200, contentType, body: renderExportResponse(rejections, contentType) };
}

export function renderOtlpRefusal(refusal: Refusal, head: RequestHead): Answer {
  const contentType = answerType(head);
  const headers = refusalHeaders(refusal);
  return {
    status: refusal.status,
    contentType,
    headers,
    body: renderRpcStatus(refusal.status, refusal.message, contentType),
  };
}
