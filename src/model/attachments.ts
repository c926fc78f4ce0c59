import type { IgnoredReason } from './ignored.ts';

/** A file that a client sent with a run. Its bytes are stored once for each project, under their hash. */
export type Attachment = {
  readonly name: string;
  /** A media type without parameters. */
  readonly contentType: string;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
};

/** The bytes of an attachment, and the run that they were sent with. */
export type AttachmentContent = Omit<Attachment, 'name' | 'bytes'> & {
  /** The position of the run in the request. */
  readonly item: number;
  readonly content: Buffer;
};

/** An attachment beyond a limit is left out; its run is accepted. */
export type AttachmentLimits = {
  /** Of one attachment. */
  readonly maxBytes: number;
  readonly perRun: number;
  readonly perRequest: number;
  /** Of all attachments of a request. */
  readonly requestBytes: number;
};

/** Why an attachment was left out, as its run notes it. */
export const LEFT_OUT = {
  too_large: 'attachmentSize',
  too_many: 'attachmentCount',
  no_store: 'attachmentPlace',
} as const satisfies Readonly<Record<string, IgnoredReason>>;

export type LeftOutCode = keyof typeof LEFT_OUT;

/** The most attachments of a run, whatever the configuration says: they are in the row of the observation. */
export const MAX_ATTACHMENTS = 100;
/** Longer names are cut at this many characters. */
export const MAX_ATTACHMENT_NAME = 255;
/** Of attachments that name no type, or a malformed one. */
const UNKNOWN_TYPE = 'application/octet-stream';

/** The media type in lower case, without parameters, such as the length that LangSmith's clients add. */
export function attachmentType(contentType: string): string {
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return type.length <= 127 && MEDIA_TYPE.test(type) ? type : UNKNOWN_TYPE;
}

const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/;

export function isSha256(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}
