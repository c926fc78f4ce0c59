import { ORIGINAL_PARENT_FIELD } from '../json/edit.ts';
import { COMMON_FIELDS, COMMON_TEXT_FIELDS, SIZED_FIELDS, slotsOf } from '../json/fields.ts';
import { compilePattern } from '../json/pattern.ts';
import { itemFields } from '../json/texts.ts';

/** Known fields of a native event, in the order of their slots in a record. */
const NATIVE_FIELDS = [
  ...COMMON_FIELDS,
  'parent_id',
  'parent_observation_id',
  'operation',
  'kind',
  'status',
  'model',
  'usage',
  'usage.input_tokens',
  'usage.output_tokens',
  'session_id',
  'user_id',
  'provider',
  'environment',
  'release',
  'tags',
  'prompt',
  'ttft_ms',
  'cost',
  ORIGINAL_PARENT_FIELD,
] as const;

export const NATIVE = slotsOf(NATIVE_FIELDS);
export const NATIVE_PATTERN = compilePattern(NATIVE_FIELDS, SIZED_FIELDS);

export const NATIVE_TEXTS = itemFields(NATIVE_PATTERN, NATIVE_FIELDS, {
  ...COMMON_TEXT_FIELDS,
  run_type: 'fixed',
  parent_id: 'fixed',
  parent_observation_id: 'fixed',
  operation: 'fixed',
  kind: 'fixed',
  status: 'fixed',
  [ORIGINAL_PARENT_FIELD]: 'fixed',
});
