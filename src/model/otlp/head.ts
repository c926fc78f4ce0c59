import type { OtlpIndex } from '../batch-index.ts';
import type { ItemHead } from '../format-module.ts';
import type { Observation } from '../observation.ts';
import { resourceAttribute, scopeName, spanAt, spanField } from './context.ts';
import { OtlpField } from './fields.ts';
import { observeJson } from './observe-json.ts';
import { observeProto, wireAttribute } from './observe-proto.ts';
import type { OtlpSpan } from './span.ts';
import { attributeText } from './value.ts';
import { tooHeavy } from './weight.ts';

/**
 * `FormatModule.head`. The span is observed once, when a fact other than an attribute is read. One with too many elements has no facts but
 * its ids: decoding it would hold the event loop up, and `validation` rejects it.
 */
export function headOfSpan(index: OtlpIndex, position: number, id: string | undefined): ItemHead {
  if (tooHeavy(index, position) !== undefined) return headOfHeavy(id);
  const isWire = index.type === 'otlp_proto';
  let observation: Observation | undefined;
  let span: OtlpSpan | undefined;
  const observed = (): Observation => {
    observation ??= (isWire ? observeProto : observeJson)(index, position, position);
    return observation;
  };
  const decoded = (): OtlpSpan => {
    span ??= spanAt(index, position);
    return span;
  };
  return {
    id,
    get traceId() {
      return id === undefined ? null : observed().traceId;
    },
    get parentId() {
      return observed().parentId;
    },
    get name() {
      return observed().name;
    },
    get kind() {
      return observed().kind;
    },
    get status() {
      return observed().status;
    },
    get scope() {
      return scopeName(index, spanField(index, position, OtlpField.SCOPE));
    },
    attribute: (key) =>
      (isWire ? wireAttribute(index, position, key) : attributeText(decoded().attributes, key)) ??
      resourceAttribute(index, spanField(index, position, OtlpField.RESOURCE), key),
  };
}

/** The trace's part of a span's id has 32 digits. */
function headOfHeavy(id: string | undefined): ItemHead {
  return {
    id,
    traceId: id?.slice(0, 32) ?? null,
    ...{ parentId: null, name: null, kind: null, status: null, scope: null },
    attribute: () => undefined,
  };
}
