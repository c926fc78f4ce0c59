import type { Instant } from '../model/observation.ts';
import type { Query } from '../query/query.ts';
import type { Place } from './rows/place.ts';

/** The field that the traces of a group have in common. */
export type GroupField = 'session' | 'user';

/** One step of a walk over traces, newest first. */
export type GroupLook = {
  readonly by: GroupField;
  /** The traces that count. */
  readonly query: Query;
  /** The step begins behind it. */
  readonly after: Place | null;
  /** The most traces that the step looks at. */
  readonly size: number;
};

/** A group, at its newest trace that a step looked at and that matches. */
export type FoundGroup = {
  readonly value: string;
  /** The user of that trace. */
  readonly userId: string | null;
  readonly place: Place;
};

export type GroupStep = {
  /** In the order of their places. */
  readonly groups: readonly FoundGroup[];
  /** The place of the last trace that the step looked at; null behind the last trace of all. */
  readonly next: Place | null;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};

/** The sums over the traces of a group that one step looked at and that match. */
export type GroupSums = {
  readonly traces: number;
  readonly observations: number;
  /** Failed observations. */
  readonly errors: number;
  /** Null if no trace has any. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly totalTokens: number | null;
  /** In 10⁻⁹ USD. */
  readonly cost: number | null;
  /** The earliest start, and the latest end; a trace without an end counts with its start. Null without traces. */
  readonly firstTime: Instant | null;
  readonly lastTime: Instant | null;
  /** Of the group's traces, the user that is last in the order of text. */
  readonly lastUserId: string | null;
  /** The sessions of a user, without order; empty for a session. */
  readonly sessions: readonly string[];
};

export type GroupSumStep = Pick<GroupStep, 'next' | 'spentMs'> & { readonly sums: GroupSums };

/** The first step of the sums of a group. */
export type StartedGroup = Pick<GroupSumStep, 'sums' | 'next'> & {
  readonly value: string;
  /** The newest trace that the step looked at and that matches; null without one. */
  readonly newest: Place | null;
};

/** The sessions and users of traces, computed from the traces when they are read. */
export type GroupStore = {
  /** Finds each group that a step of all traces comes across, once. */
  findGroups(projectId: string, look: GroupLook): Promise<GroupStep>;
  /** Sums over one step of the group's traces. */
  sumGroup(projectId: string, value: string, look: GroupLook): Promise<GroupSumStep>;
  /**
   * The first steps of several groups at once, for a store of which each call costs a round trip. `size`: the most traces of each group
   * that the steps look at.
   */
  startGroups?(
    projectId: string,
    values: readonly string[],
    look: Omit<GroupLook, 'after'>,
  ): Promise<{ readonly started: readonly StartedGroup[]; readonly spentMs: number }>;
};
