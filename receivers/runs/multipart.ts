import type { RequestHead, Settings } from '../../src/component/component.ts';
import { hourly } from '../../src/component/line-spacing.ts';
import { acceptedEncoding, mediaTypeOf } from '../../src/http/media.ts';
import { ENCODINGS, nativeProtocol } from '../../src/http/native-protocol.ts';
import type { HttpProtocol } from '../../src/http/receiver.ts';
import type { AttachmentLimits } from '../../src/model/attachments.ts';
import { Refusal } from '../../src/model/errors.ts';
import { boundaryOf } from '../../src/model/runs/multipart.ts';

/** Runs in parts (`multipart/form-data`), as LangSmith's clients send them by default. The answer is that of a batch. */
export function multipartProtocol(
  { clock, logger, metrics }: Settings,
  attachments: AttachmentLimits,
): HttpProtocol {
  const counter = metrics.counter(
    'tracectl_runs_left_out_parts_total',
    'Parts of multipart requests that are not stored, by kind: attachment (without its run, or beyond a limit), feedback (malformed, or without a store), or other (unknown names).',
  );
  const logLine = hourly(clock, () => {
    logger.warn({}, 'Parts of multipart requests are not stored');
  });
  return {
    ...nativeProtocol('runs'),
    checkHead(head) {
      boundaryIn(head);
      return { format: 'runs', encoding: acceptedEncoding(head, ENCODINGS) };
    },
    multipart: (head) => ({ boundary: boundaryIn(head), attachments }),
    leftOut({ attachments, feedback, others }) {
      if (attachments > 0) counter.add(attachments, { kind: 'attachment' });
      if (feedback > 0) counter.add(feedback, { kind: 'feedback' });
      if (others > 0) counter.add(others, { kind: 'other' });
      if (attachments + feedback + others > 0) logLine();
    },
  };
}

function boundaryIn(head: RequestHead): string {
  const [contentType = ''] = head.headers.get('content-type') ?? [];
  const boundary = boundaryOf(contentType);
  if (mediaTypeOf(head) === 'multipart/form-data' && boundary !== undefined) return boundary;
  throw new Refusal(
    'unsupported_content_type',
    'The content type must be multipart/form-data with a boundary.',
  );
}
