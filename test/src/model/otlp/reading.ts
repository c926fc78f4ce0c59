import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import {
  type Observation,
  PAYLOAD_FIELDS,
  type Payload,
} from '../../../../src/model/observation.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import {
  attributesOf,
  encodeRequest,
  type RequestForm,
  requestOf,
  spanOf,
} from '../../../helper/otlp-proto.ts';

export const LIMITS = { maxItems: 1000 };
export const MiB = 1024 * 1024;

export const protoIndex = (request: RequestForm) => otlpProto.scan(encodeRequest(request), LIMITS);
export const jsonIndex = (request: RequestForm | string) => {
  const text = typeof request === 'string' ? request : JSON.stringify(request);
  return otlpJson.scan(Buffer.from(text), LIMITS);
};
export const moduleOf = (index: OtlpIndex) => (index.type === 'otlp_proto' ? otlpProto : otlpJson);

/** A span's observation and its parsed payload fields; fails if the encodings differ. */
export function read(
  span: object,
  around: { resource?: object; scope?: object } = {},
): { observation: Observation; payload: Record<string, unknown>; text: Payload } {
  const request = requestOf([span], around);
  const [proto, json] = [protoIndex(request), jsonIndex(request)].map((index) => ({
    observation: moduleOf(index).observe(index, 0, 7),
    text: moduleOf(index).payload(index, 0, PAYLOAD_FIELDS),
  }));
  t.same(proto, json, 'both encodings give the same observation and payload');
  const { observation, text } = proto as NonNullable<typeof proto>;
  const payload = Object.fromEntries(
    Object.entries(text).map(([field, value]) => [field, JSON.parse(value)]),
  );
  const mask = PAYLOAD_FIELDS.reduce((bits, field, i) => bits | (field in text ? 1 << i : 0), 0);
  t.equal(observation.payloadMask, mask, 'the mask has a bit for each payload field');
  return { observation, payload, text };
}

export const withAttributes = (values: Record<string, unknown>, more: object = {}) =>
  read(spanOf(0, { attributes: attributesOf(values), ...more }));
