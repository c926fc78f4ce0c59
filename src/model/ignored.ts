/** A value of an accepted item that gave no field, because it is malformed. The item keeps it as it was sent. */
export type IgnoredValue = {
  /** The place of the value in the item, such as `usage.cached_tokens`. It holds known names only. */
  readonly path: string;
  /** It never echoes the value. */
  readonly reason: string;
};

/** Further values are ignored without a note. */
export const MAX_IGNORED = 16;

/** The reasons; a value that is sound and unknown is not noted. */
const IGNORED_REASONS = {
  time: 'is no time',
  count: 'is no count of tokens',
  counts: 'is no object of counts',
  amount: 'is no amount',
  amounts: 'is no object of amounts',
  tags: 'is no list of texts',
  duration: 'is no duration',
  attachments: 'are not stored',
  attachmentSize: 'has more bytes than an attachment, or the attachments of a request, may have',
  attachmentCount: 'is one more than a run, or a request, may have',
  attachmentPlace: 'did not get into a store: it arrived without one, or is not passed on',
} as const;

export type IgnoredReason = keyof typeof IGNORED_REASONS;

/** The ignored values of one item. */
export class IgnoredValues {
  #values: IgnoredValue[] | undefined;

  constructor(noted?: readonly IgnoredValue[]) {
    this.#values = noted && [...noted];
  }

  /** The first note about a place stays. */
  add(path: string, reason: IgnoredReason): void {
    this.#values ??= [];
    if (this.#values.length === MAX_IGNORED) return;
    if (this.#values.some((value) => value.path === path)) return;
    this.#values.push({ path, reason: IGNORED_REASONS[reason] });
  }

  /** Undefined without any. */
  get list(): readonly IgnoredValue[] | undefined {
    return this.#values;
  }
}
