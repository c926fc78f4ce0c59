import type { TextField } from '../texts.ts';

/**
 * Fields that native events and runs have in common. They open the list of either format, so that their
 * slots are the same in both and one set of rules can read them.
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

/** Fields whose compact JSON length counts: for the 4 MiB of each, and for hourly usage. */
export const SIZED_FIELDS = [
  'inputs',
  'outputs',
  'events',
  'metadata',
  'context_metadata',
  'extra.metadata',
] as const;
/** Compact JSON of one such field may have this many bytes (spec 8). */
export const MAX_FIELD_BYTES = 4_194_304;
export type SizedField = (typeof SIZED_FIELDS)[number];

/** The slot of every field of a list, by its path. */
export function slotsOf<const Field extends string>(
  fields: readonly Field[],
): Readonly<Record<Field, number>> {
  return Object.fromEntries(fields.map((field, slot) => [field, slot])) as Record<Field, number>;
}

/** Slots of the common fields, the same in both formats. */
export const COMMON = slotsOf(COMMON_FIELDS);
/** Places in `JsonIndex.sizes`, the same in both formats. */
export const SIZED = slotsOf(SIZED_FIELDS);
