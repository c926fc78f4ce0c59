import { ORIGINAL_PARENT_FIELD } from '../json/edit.ts';
import { COMMON_FIELDS, COMMON_TEXT_FIELDS, SIZED_FIELDS, slotsOf } from '../json/fields.ts';
import { compilePattern } from '../json/pattern.ts';
import { itemFields } from '../json/texts.ts';

/** Known fields of a run, as LangSmith's clients send it, in the order of their slots. */
const RUN_FIELDS = [
  ...COMMON_FIELDS,
  'parent_run_id',
  'dotted_order',
  'session_name',
  'session_id',
  'extra.metadata.ls_model_name',
  'extra.metadata.usage_metadata',
  'extra.metadata.thread_id',
  'extra.metadata.conversation_id',
  'extra.invocation_params',
  'extra.invocation_params.model',
  'extra.invocation_params.model_name',
  'outputs.usage_metadata',
  'outputs.usage',
  'tags',
  'reference_example_id',
  'attachments',
  ORIGINAL_PARENT_FIELD,
] as const;

export const RUN = slotsOf(RUN_FIELDS);
export const RUN_PATTERN = compilePattern(RUN_FIELDS, SIZED_FIELDS);

export const RUN_TEXTS = itemFields(RUN_PATTERN, RUN_FIELDS, {
  ...COMMON_TEXT_FIELDS,
  parent_run_id: 'fixed',
  dotted_order: 'fixed',
  [ORIGINAL_PARENT_FIELD]: 'fixed',
});
