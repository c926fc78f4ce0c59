import type { JsonIndex } from '../batch-index.ts';
import { PermanentError } from '../errors.ts';
import type { FormatModule, ItemHead } from '../format-module.ts';
import { IgnoredValues } from '../ignored.ts';
import { cutItems } from '../json/cut.ts';
import { encodeJsonText, ORIGINAL_PARENT_FIELD, reparentItem, spliceJson } from '../json/edit.ts';
import { COMMON } from '../json/fields.ts';
import {
  customFieldsOf,
  errorAt,
  firstTextAt,
  idAt,
  instantAt,
  metadataText,
  originalParentAt,
  ownId,
  payloadMaskOf,
  payloadOfItem,
  sourceOfItem,
  tokenUsageAt,
  usageBytesOf,
  versionAt,
} from '../json/item.ts';
import { narrowStringAt } from '../json/narrow.ts';
import { isPresent } from '../json/read.ts';
import { documentScanner } from '../json/scan.ts';
import { itemTexts, rootTexts } from '../json/texts.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
  type Observation,
  type ObservationKind,
  type ObservationStatus,
} from '../observation.ts';
import { nativeDetails } from './details.ts';
import { NATIVE, NATIVE_PATTERN, NATIVE_TEXTS } from './fields.ts';

/** Native observation events: `{"events":[…]}`. */
export const native: FormatModule<JsonIndex> = {
  scan: documentScanner({
    type: 'native',
    pattern: NATIVE_PATTERN,
    arrays: ['events'],
    required: true,
  }),
  itemId: ownId,
  usageBytes: usageBytesOf,
  cut: cutItems,
  erase: cutItems,
  observe,
  payload: payloadOfItem,
  source: sourceOfItem,
  texts: (index, position, visitor) => itemTexts(NATIVE_TEXTS, index, position, visitor),
  sharedTexts: rootTexts,
  head,
  encodeText: encodeJsonText,
  splice: spliceJson,
  reparent: (index, position, parent) =>
    reparentItem(PARENTS, ORIGINAL_PARENT, index, position, parent),
};

const PARENTS = [
  { slot: NATIVE.parent_id, name: 'parent_id' },
  { slot: NATIVE.parent_observation_id, name: 'parent_observation_id' },
];
const ORIGINAL_PARENT = NATIVE[ORIGINAL_PARENT_FIELD];

function head(index: JsonIndex, position: number): ItemHead {
  return {
    get id() {
      return ownId(index, position);
    },
    get traceId() {
      return idAt(index, position, COMMON.trace_id);
    },
    get parentId() {
      return idAt(index, position, parentSlot(index, position));
    },
    get name() {
      return narrowStringAt(index, position, COMMON.name) ?? null;
    },
    get kind() {
      return kindAt(index, position);
    },
    get status() {
      return statusAt(index, position);
    },
    scope: null,
    attribute: (key) => metadataText(index, position, key),
  };
}

function kindAt(index: JsonIndex, position: number): ObservationKind | null {
  return memberOf(OBSERVATION_KINDS, narrowStringAt(index, position, kindSlot(index, position)));
}

function statusAt(index: JsonIndex, position: number): ObservationStatus | null {
  return memberOf(OBSERVATION_STATUSES, narrowStringAt(index, position, NATIVE.status));
}

function observe(index: JsonIndex, position: number, requestIndex: number): Observation {
  const id = ownId(index, position);
  const traceId = idAt(index, position, COMMON.trace_id);
  const operation = memberOf(
    OBSERVATION_OPERATIONS,
    narrowStringAt(index, position, NATIVE.operation),
  );
  // The validation processor rejects such events; not every pipeline has one.
  if (id === undefined || traceId === null || operation === null) {
    throw new PermanentError('unreadable_event', 'The event has no id, trace or operation.');
  }
  const endTime = instantAt(index, position, COMMON.end_time, false) ?? null;
  const originalParent = originalParentAt(index, position, ORIGINAL_PARENT);
  const ignored = new IgnoredValues();
  return {
    id,
    traceId,
    parentId: idAt(index, position, parentSlot(index, position)),
    index: requestIndex,
    operation,
    version: versionAt(index, position),
    name: narrowStringAt(index, position, COMMON.name) ?? null,
    kind: kindAt(index, position),
    status: statusAt(index, position),
    startTime: instantAt(index, position, COMMON.start_time, false) ?? null,
    endTime,
    ended: operation !== 'start' || endTime !== null,
    model: narrowStringAt(index, position, NATIVE.model) ?? null,
    usage: tokenUsageAt(index, position, NATIVE.usage, 'anthropic', { ignored, path: 'usage' }),
    sessionId: firstTextAt(index, position, SESSION_SLOTS),
    userId: firstTextAt(index, position, USER_SLOTS),
    error: errorAt(index, position),
    customFields: customFieldsOf(index, position),
    external: originalParent === null ? null : { parent_id: originalParent },
    details: nativeDetails(index, position, ignored),
    payloadMask: payloadMaskOf(index, position),
  };
}

/** `kind` takes precedence over `run_type`. */
export function kindSlot(index: JsonIndex, position: number): number {
  return isPresent(index, position, NATIVE.kind) ? NATIVE.kind : COMMON.run_type;
}

/** `parent_id` takes precedence over `parent_observation_id`. */
export function parentSlot(index: JsonIndex, position: number): number {
  return isPresent(index, position, NATIVE.parent_id)
    ? NATIVE.parent_id
    : NATIVE.parent_observation_id;
}

const SESSION_SLOTS = [
  NATIVE.session_id,
  COMMON['metadata.session_id'],
  COMMON['extra.metadata.session_id'],
];
const USER_SLOTS = [NATIVE.user_id, COMMON['metadata.user_id'], COMMON['extra.metadata.user_id']];

function memberOf<T extends string>(members: readonly T[], text: string | undefined): T | null {
  return members.find((member) => member === text) ?? null;
}
