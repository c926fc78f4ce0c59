import type { SealedBatch } from '../../src/model/batch.ts';
import { observeEach, payload, positionOf } from '../../src/model/formats.ts';
import type { Observation, Payload } from '../../src/model/observation.ts';
import { PAYLOAD_FIELDS } from '../../src/model/observation.ts';
import { spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import type { OwnSpan } from '../../src/model/otlp/own-span.ts';

/** One event of an observation, with where it came from. */
export type ObservationEvent = {
  readonly batch: SealedBatch;
  /** Of the item in the batch's body. */
  readonly position: number;
  readonly observation: Observation;
  readonly payload: Payload;
};

/** An item that no event can be made of. */
export type UnreadableItem = { readonly position: number; readonly message: string };

/** All events of a batch; those that cannot be read by their position. */
export function eventsOf(batch: SealedBatch): {
  events: ObservationEvent[];
  unreadable: UnreadableItem[];
} {
  const { observations, failures } = observeEach(batch);
  const events = observations.map((observation) => {
    const position = positionOf(batch, observation.index) ?? observation.index;
    return { batch, position, observation, payload: payload(batch, position) };
  });
  const unreadable = failures.map(({ index, error }) => ({
    position: positionOf(batch, index) ?? index,
    message: error instanceof Error ? error.message : String(error),
  }));
  return { events, unreadable };
}

/** What events of one observation have in common. An update of a run may not know its trace. */
export function keyOf({ batch, observation }: ObservationEvent): string {
  const trace = batch.format === 'runs' ? '' : (observation.traceId ?? '');
  return JSON.stringify([batch.tenant.projectId, trace, observation.id]);
}

/** By observation, in order of their first event. */
export function groupsOf(events: readonly ObservationEvent[]): Map<string, ObservationEvent[]> {
  const groups = new Map<string, ObservationEvent[]>();
  for (const event of events) {
    const key = keyOf(event);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [event]);
    else group.push(event);
  }
  return groups;
}

/**
 * The span that events of one observation amount to: for every field the value of the event with the
 * higher version wins, among equals that of a terminal one, then of the later one; absent values never.
 */
export function spanOf(events: readonly ObservationEvent[]): OwnSpan {
  const ordered = [...events].sort(compareEvents);
  const last = ordered.at(-1);
  if (last === undefined) throw new Error('a span is made of one event at least');
  if (ordered.length === 1) {
    return spanOfObservation(last.observation, last.payload, last.batch.receivedAt);
  }
  const merged: Record<string, unknown> = {};
  const payload: Payload = {};
  for (const event of ordered) {
    for (const [field, value] of Object.entries(event.observation)) {
      if (value !== null || !(field in merged)) merged[field] = value;
    }
    for (const field of PAYLOAD_FIELDS) {
      const text = event.payload[field];
      if (text !== undefined) payload[field] = text;
    }
  }
  merged.ended = events.some(({ observation }) => observation.ended);
  const terminal = ordered.findLast(({ observation }) => observation.operation !== 'start');
  if (terminal !== undefined) merged.operation = terminal.observation.operation;
  const receivedAt = Math.max(...events.map(({ batch }) => batch.receivedAt));
  return spanOfObservation(merged as Observation, payload, receivedAt);
}

function compareEvents(a: ObservationEvent, b: ObservationEvent): number {
  const versions = BigInt(a.observation.version) - BigInt(b.observation.version);
  if (versions !== 0n) return versions > 0n ? 1 : -1;
  const terminal = Number(isTerminal(a)) - Number(isTerminal(b));
  if (terminal !== 0) return terminal;
  if (a.batch.id !== b.batch.id) return a.batch.id > b.batch.id ? 1 : -1;
  return a.position - b.position;
}

function isTerminal({ observation }: ObservationEvent): boolean {
  return observation.operation !== 'start';
}
