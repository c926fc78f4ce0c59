import { decodeCheckedText } from './json/checked.ts';

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
  attachmentPlace: 'is not stored: the pipeline that received it has no store',
  attachmentHop: 'are not passed on: a span has no files',
  text: 'is no text',
  flag: 'is neither true nor false',
  number: 'is no number',
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

const NOTED_PATH = /^attributes\.[\w.]{1,128}$/;
const MAX_NOTES_TEXT = MAX_IGNORED * 256;

/**
 * The notes in the text of an attribute, pairs of a path and a reason, for a span that was made of a log record. Any client may send
 * the attribute, so unknown reasons and other paths are left out.
 */
export function ignoredNotesIn(
  text: string | null | undefined,
): readonly (readonly [path: string, reason: IgnoredReason])[] {
  if (typeof text !== 'string' || text.length > MAX_NOTES_TEXT) return [];
  const notes = decodeCheckedText(text, 2);
  if (!Array.isArray(notes)) return [];
  return notes.slice(0, MAX_IGNORED).filter(isNote);
}

function isNote(note: unknown): note is readonly [string, IgnoredReason] {
  if (!Array.isArray(note)) return false;
  const [path, reason]: unknown[] = note;
  const isPath = typeof path === 'string' && NOTED_PATH.test(path);
  return isPath && typeof reason === 'string' && Object.hasOwn(IGNORED_REASONS, reason);
}
