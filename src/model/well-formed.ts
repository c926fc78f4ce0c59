import type { Observation } from './observation.ts';

/**
 * The same text with the JSON escape, such as `\ud83d`, in place of each unpaired surrogate. UTF-8 has no form of them, so that a store
 * would otherwise replace each by the same character, and different users would become one.
 */
export function wellFormed(text: string): string {
  // Hot path: this comparison costs nothing for a text of Latin-1.
  return text.isWellFormed() ? text : text.replace(UNPAIRED, escapeOf);
}

const UNPAIRED = /\p{Surrogate}/gu;

function escapeOf(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16)}`;
}

/** The same observation with well-formed narrow texts. */
export function withWellFormedTexts(observation: Observation): Observation {
  if (hasWellFormedTexts(observation)) return observation;
  const { customFieldsText: _printed, ...rest } = observation;
  return withTexts(rest) as Observation;
}

/** Hot path: reads the fields by name. Ids of traces and observations are well-formed in every format. */
function hasWellFormedTexts(observation: Observation): boolean {
  const { parentId, name, model, sessionId, userId } = observation;
  const { error, customFields, external, usage, details } = observation;
  return (
    isSound(parentId) &&
    isSound(name) &&
    isSound(model) &&
    isSound(sessionId) &&
    isSound(userId) &&
    isSound(error) &&
    isSound(customFields) &&
    isSound(external) &&
    isSound(usage) &&
    isSound(details)
  );
}

/** Whether all texts of a value are well-formed, with the names of members. */
function isSound(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isSound);
  for (const name in value) {
    if (!name.isWellFormed() || !isSound((value as Record<string, unknown>)[name])) return false;
  }
  return true;
}

function withTexts(value: unknown): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withTexts);
  const copy = Object.create(Object.getPrototypeOf(value) as object | null) as object;
  for (const [name, member] of Object.entries(value)) {
    Object.defineProperty(copy, wellFormed(name), {
      ...{ value: withTexts(member), enumerable: true, configurable: true, writable: true },
    });
  }
  return copy;
}
