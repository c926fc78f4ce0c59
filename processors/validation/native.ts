import { COMMON } from '../../src/model/json/fields.ts';
import { isPresent } from '../../src/model/json/read.ts';
import { NATIVE } from '../../src/model/native/fields.ts';
import { kindSlot, parentSlot } from '../../src/model/native/format.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
} from '../../src/model/observation.ts';
import type { FieldAt, Named, Rule } from './checks.ts';
import {
  eventVersion,
  fieldSizes,
  itemIdField,
  optionalId,
  optionalInstant,
  optionalInteger,
  optionalObject,
  optionalString,
  requiredId,
  requiredMember,
} from './checks.ts';

const KIND: Named = { name: 'kind', slot: NATIVE.kind };
const RUN_TYPE: Named = { name: 'run_type', slot: COMMON.run_type };
const PARENT_ID: Named = { name: 'parent_id', slot: NATIVE.parent_id };
const PARENT_OBSERVATION_ID: Named = {
  name: 'parent_observation_id',
  slot: NATIVE.parent_observation_id,
};

const traceId: Named = { name: 'trace_id', slot: COMMON.trace_id };
const operation: Named = { name: 'operation', slot: NATIVE.operation };
const status: Named = { name: 'status', slot: NATIVE.status };
/** If neither is sent, the missing field is `kind`. */
const kindField: FieldAt = (index, position) =>
  kindSlot(index, position) === RUN_TYPE.slot && isPresent(index, position, RUN_TYPE.slot)
    ? RUN_TYPE
    : KIND;
const parentField: FieldAt = (index, position) =>
  parentSlot(index, position) === NATIVE.parent_id ? PARENT_ID : PARENT_OBSERVATION_ID;

/** Rules of a native event (spec 2.3), in the order in which the first broken one is reported. */
export const NATIVE_RULES: readonly Rule[] = [
  requiredId(itemIdField),
  requiredId(() => traceId),
  requiredMember(() => operation, OBSERVATION_OPERATIONS),
  requiredMember(kindField, OBSERVATION_KINDS),
  requiredMember(() => status, OBSERVATION_STATUSES),
  optionalInstant('start_time', COMMON.start_time),
  optionalInstant('end_time', COMMON.end_time),
  eventVersion,
  optionalString('name', COMMON.name),
  optionalId(parentField),
  optionalObject('usage', NATIVE.usage),
  optionalInteger('usage.input_tokens', NATIVE['usage.input_tokens']),
  optionalInteger('usage.output_tokens', NATIVE['usage.output_tokens']),
  fieldSizes,
];
