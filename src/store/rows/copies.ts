import { createHash } from 'node:crypto';
import { withinLimits } from '../../model/narrow-limits.ts';
import type { Observation, ObservationSource } from '../../model/observation.ts';
import { OBSERVATION_SOURCES } from '../../model/observation.ts';
import type { ObservationRow } from './observation-row.ts';
import { isEnded, isMarkedTwice, ROW, sourceNumberOf } from './observation-row.ts';

/**
 * A client that sends each run as a span too (`Observation.sentTwice`) names neither in the other: their name and start are equal,
 * the start to the microsecond. The column `copy` has the key of such a pair: of every such span, and of every such run
 * that has ended. A run that has ended takes the place of the spans of its pair.
 */
export type CopyKey = `${'run' | 'span'} ${string}`;

const RUNS = OBSERVATION_SOURCES.indexOf('runs');
const SPANS = OBSERVATION_SOURCES.indexOf('otlp');

/** The cell `copy` of a row; null for nearly all rows. Hot path, runs for every row. */
export function copyKeyOf(row: ObservationRow): CopyKey | null {
  const flags = row[ROW.FLAGS];
  if (!isMarkedTwice(flags)) return null;
  const source = sourceNumberOf(flags);
  const side = source === SPANS ? 'span' : source === RUNS && isEnded(flags) ? 'run' : undefined;
  const [name, ms] = [row[ROW.NAME], row[ROW.START_MS]];
  if (side === undefined || name === null || ms === null) return null;
  return `${side} ${pairOf(name, ms, row[ROW.START_NS] ?? 0)}`;
}

export function isRunWithCopy(copy: CopyKey | null): copy is `run ${string}` {
  return copy?.startsWith('run ') === true;
}

/** The key of the other row of the pair. */
export function otherCopy(copy: CopyKey): CopyKey {
  const pair = copy.slice(copy.indexOf(' ') + 1);
  return isRunWithCopy(copy) ? `span ${pair}` : `run ${pair}`;
}

/** The key of the run that an observation of a batch repeats, as its row has it; null for any other observation. */
export function repeatedRun(observation: Observation, source: ObservationSource): CopyKey | null {
  return source === 'otlp' ? keyOfRun(observation) : null;
}

/** The key of a run that a span may repeat, whether it has ended or not; null for any other observation. */
export function repeatableRun(observation: Observation, source: ObservationSource): CopyKey | null {
  return source === 'runs' ? keyOfRun(observation) : null;
}

function keyOfRun(observation: Observation): CopyKey | null {
  if (observation.sentTwice !== true) return null;
  const { name, startTime } = withinLimits(observation);
  if (name === null || startTime === null) return null;
  return `run ${pairOf(name, startTime.ms, startTime.ns)}`;
}

const MICROSECONDS = 1000;

/** The client computes the nanoseconds of the span from a double, which is up to a quarter of a microsecond off. */
function pairOf(name: string, ms: number, ns: number): string {
  const micros = BigInt(ms) * 1000n + BigInt(Math.round(ns / MICROSECONDS));
  return createHash('sha256').update(`${micros} ${name}`).digest('base64url').slice(0, 22);
}
