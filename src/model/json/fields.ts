import type { TextField } from '../texts.ts';

/**
 * The common fields of native events and runs. Both formats list them first, so their slots are the same and one
 * set of rules reads both.
 */
export const COMMON_FIELDS = [
  'id',
  'observation_id',
  'trace_id',
  'run_type',
  'name',
  'start_time',
  'end_time',
  'event_version',
  'error',
  'inputs',
  'outputs',
  'events',
  'metadata',
  'metadata.custom_fields',
  'metadata.session_id',
  'metadata.user_id',
  'context_metadata',
  'context_metadata.custom_fields',
  'extra',
  'extra.metadata',
  'extra.metadata.custom_fields',
  'extra.metadata.session_id',
  'extra.metadata.user_id',
  'custom_fields',
] as const;

/** The text fields of both formats' common fields; see `itemFields`. */
export const COMMON_TEXT_FIELDS = {
  id: 'fixed',
  observation_id: 'fixed',
  trace_id: 'fixed',
  start_time: 'fixed',
  end_time: 'fixed',
  event_version: 'fixed',
  name: 'name',
  error: 'error',
  inputs: 'inputs',
  outputs: 'outputs',
  events: 'events',
  metadata: 'metadata',
  context_metadata: 'metadata',
  'extra.metadata': 'metadata',
  custom_fields: 'custom_fields',
  'metadata.custom_fields': 'custom_fields',
  'context_metadata.custom_fields': 'custom_fields',
  'extra.metadata.custom_fields': 'custom_fields',
} as const satisfies Partial<Record<(typeof COMMON_FIELDS)[number], TextField>>;

/** Fields with a limit of 4 MiB of compact JSON each, whose compact length counts as hourly usage. */
export const SIZED_FIELDS = [
  'inputs',
  'outputs',
  'events',
  'metadata',
  'context_metadata',
  'extra.metadata',
] as const;
/** The largest compact JSON of one such field, in bytes. */
export const MAX_FIELD_BYTES = 4_194_304;

/** The slot of every path in a list. */
export function slotsOf<const Field extends string>(
  fields: readonly Field[],
): Readonly<Record<Field, number>> {
  return Object.fromEntries(fields.map((field, slot) => [field, slot])) as Record<Field, number>;
}

/** Slots of the common fields, the same in both formats. */
export const COMMON = slotsOf(COMMON_FIELDS);
/** Places in `JsonIndex.sizes`, the same in both formats. */
export const SIZED = slotsOf(SIZED_FIELDS);
