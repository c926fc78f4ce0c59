/** The closed list of reasons to reject one item of a request (spec 7.3). */
export type RejectionCode =
  | 'invalid_event'
  | 'missing_field'
  | 'invalid_field'
  | 'invalid_custom_fields'
  | 'payload_too_large';

/** One refused item. `reason` names a path and never echoes a value. */
export type Rejection = {
  /** Position of the item in the request, from 0. */
  readonly index: number;
  /** The item's own id, if it is known. */
  readonly id?: string;
  readonly code: RejectionCode;
  readonly reason: string;
};
