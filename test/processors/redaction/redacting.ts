import { config } from '../../../processors/redaction/config.ts';
import { Redactor } from '../../../processors/redaction/redactor.ts';
import type { Format, ReceivedBatch } from '../../../src/model/batch.ts';
import { STORED_LIMITS, scan } from '../../../src/model/formats.ts';
import { rawBatch, received } from '../../helper/batches.ts';
import { applyEdits } from '../../helper/edits.ts';

/** A received batch of a body, redacted at once. */
export function redactedBatch(
  format: Format,
  body: Buffer | string | object,
  written: object = {},
): ReceivedBatch {
  const bytes = Buffer.isBuffer(body)
    ? Buffer.from(body)
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const { count } = scan(format, bytes, STORED_LIMITS);
  const batch = received(rawBatch(format, bytes, count));
  const work = new Redactor(config.parse(written), () => undefined).redact(batch);
  while (work.next().done !== true);
  applyEdits(batch);
  return batch;
}

/** A body as a configuration leaves it; masks keep its length. */
export function redacted(
  format: Format,
  body: Buffer | string | object,
  written: object = {},
): Buffer {
  return redactedBatch(format, body, written).body;
}

/** The value of a text in the inputs of a native event, after redaction. */
export function redactedText(text: string, written: object = {}): string {
  const body = { events: [{ inputs: { text } }] };
  const result = JSON.parse(redacted('native', body, written).toString()) as typeof body;
  return result.events[0]?.inputs.text ?? '';
}

/** The text with every occurrence of the secrets replaced by as many asterisks as it has bytes in JSON. */
export function masked(text: string, ...secrets: readonly string[]): string {
  return secrets.reduce(
    (rest, secret) => rest.replaceAll(secret, '*'.repeat(jsonBytes(secret))),
    text,
  );
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}
