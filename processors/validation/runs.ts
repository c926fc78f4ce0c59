import { COMMON } from '../../src/model/json/fields.ts';
import { RUN } from '../../src/model/runs/fields.ts';
import type { Named, Rule } from './checks.ts';
import {
  eventVersion,
  fieldSizes,
  itemIdField,
  optionalId,
  optionalString,
  requiredId,
} from './checks.ts';

const traceId: Named = { name: 'trace_id', slot: COMMON.trace_id };
const parentRunId: Named = { name: 'parent_run_id', slot: RUN.parent_run_id };

/** Rules of a run (spec 2.4): an id, and other sent fields in a readable form. A malformed time costs the time only. */
export const RUN_RULES: readonly Rule[] = [
  requiredId(itemIdField),
  optionalId(() => traceId),
  optionalId(() => parentRunId),
  optionalString('name', COMMON.name),
  optionalString('run_type', COMMON.run_type),
  eventVersion,
  fieldSizes,
];
