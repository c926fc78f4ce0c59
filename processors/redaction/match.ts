import type { Action } from './config.ts';

/** A range of a body's bytes that is redacted, and how. */
export type Match = {
  readonly start: number;
  readonly end: number;
  /** Built-in rule, `keys`, or the name of a pattern. */
  readonly rule: string;
  readonly action: Action;
  /** Its characters without escapes: what a hash is made of. */
  readonly text: string;
  /** It is a number of JSON within a text. */
  readonly isNumber: boolean;
};

/**
 * Joins matches that overlap: several rules find the same characters, and neighbouring windows of a text
 * overlap. The longest match decides what happens to all; of equally long ones, the strictest.
 */
export class OverlappingMatches {
  #matches: Match[] = [];
  #isSorted = true;

  add(match: Match): void {
    this.#isSorted = false;
    this.#matches.push(match);
  }

  /** Takes the joined matches that end at or before `limit`, if no further match starts before it. */
  takeUntil(limit: number): Match[] {
    if (!this.#isSorted) this.#matches.sort((a, b) => a.start - b.start);
    this.#isSorted = true;
    const taken: Match[] = [];
    const left: Match[] = [];
    // There may be many more matches behind the limit.
    const behind = this.#matches.findIndex(({ start }) => start >= limit);
    const some = behind === -1 ? this.#matches : this.#matches.slice(0, behind);
    for (const group of groupsOf(some)) {
      if (group.end > limit) left.push(...group.matches);
      else taken.push(joined(group));
    }
    if (some.length > 0) this.#matches = [...left, ...this.#matches.slice(some.length)];
    return taken;
  }
}

type Group = { readonly start: number; end: number; readonly matches: Match[] };

/** `matches` are in order. */
function groupsOf(matches: readonly Match[]): Group[] {
  const groups: Group[] = [];
  for (const match of matches) {
    const last = groups.at(-1);
    if (last !== undefined && match.start < last.end) {
      last.end = Math.max(last.end, match.end);
      last.matches.push(match);
    } else {
      groups.push({ start: match.start, end: match.end, matches: [match] });
    }
  }
  return groups;
}

function joined({ start, end, matches }: Group): Match {
  const decisive = matches.reduce((best, match) => (isStronger(match, best) ? match : best));
  return { ...decisive, start, end };
}

const STRICTNESS: Readonly<Record<Action, number>> = { mask: 0, hash: 1, remove: 2 };

function isStronger(match: Match, other: Match): boolean {
  const more = match.end - match.start - (other.end - other.start);
  return more > 0 || (more === 0 && STRICTNESS[match.action] > STRICTNESS[other.action]);
}
