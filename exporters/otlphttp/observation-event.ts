import type { SealedBatch } from '../../src/model/batch.ts';
import { observeEach, payload, positionOf } from '../../src/model/formats.ts';
import type { Observation, Payload } from '../../src/model/observation.ts';
import { PAYLOAD_FIELDS } from '../../src/model/observation.ts';
import { spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import type { OwnSpan } from '../../src/model/otlp/own-span.ts';

/** One event of an observation, with the batch that it arrived in. */
export type ObservationEvent = {
  readonly batch: SealedBatch;
  /** Position of the item in the body of the batch. */
  readonly position: number;
  readonly observation: Observation;
  readonly payload: Payload;
};

/** An item that cannot be read as an event. */
export type UnreadableEvent = { readonly position: number; readonly message: string };

/** The items of a batch. */
export type BatchEvents = {
  readonly events: readonly ObservationEvent[];
  readonly unreadable: readonly UnreadableEvent[];
};

export function eventsOf(batch: SealedBatch): BatchEvents {
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

/** The same for all events of one observation. The trace of a run is left out: an update may not name it. */
export function eventKey({ batch, observation }: ObservationEvent): string {
  const trace = batch.format === 'runs' ? '' : (observation.traceId ?? '');
  return JSON.stringify([batch.tenant.projectId, trace, observation.id]);
}

/** Events by observation, in the order of their first event. */
export function groupsOf(events: readonly ObservationEvent[]): Map<string, ObservationEvent[]> {
  const groups = new Map<string, ObservationEvent[]>();
  for (const event of events) {
    const key = eventKey(event);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [event]);
    else group.push(event);
  }
  return groups;
}

/**
 * Merges the events of one observation into a span. Each field has the value of the event with the highest
 * version, among equal versions of a terminal event, then of the later event; absent values never win.
 */
export function mergedSpan(events: readonly ObservationEvent[]): OwnSpan {
  const ordered = [...events].sort(compareEvents);
  const last = ordered.at(-1);
  if (last === undefined) throw new Error('a span needs at least one event');
  if (ordered.length === 1) {
    return spanOfObservation(last.observation, last.payload, last.batch.receivedAt);
  }
  let merged: Observation = last.observation;
  for (const { observation } of ordered) {
    // Events win each detail independently, too.
    const details =
      observation.details === null ? null : { ...merged.details, ...observation.details };
    merged = { ...merged, ...presentFields({ ...observation, details }) };
  }
  const payload: Payload = {};
  for (const event of ordered) {
    for (const field of PAYLOAD_FIELDS) {
      const text = event.payload[field];
      if (text !== undefined) payload[field] = text;
    }
  }
  const terminal = ordered.findLast(isTerminal);
  const receivedAt = Math.max(...events.map(({ batch }) => batch.receivedAt));
  return spanOfObservation(
    {
      ...merged,
      ended: events.some(({ observation }) => observation.ended),
      operation: terminal?.observation.operation ?? merged.operation,
    },
    payload,
    receivedAt,
  );
}

function presentFields(observation: Observation): Partial<Observation> {
  return Object.fromEntries(Object.entries(observation).filter(([, value]) => value !== null));
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
