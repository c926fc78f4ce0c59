/** Counts of a run. Spans are observation events for `native`, and runs for `runs`. */
export type Tally = {
  lines: number;
  /** Spans of lines, or generated. */
  spans: number;
  accepted: number;
  /** Spans that the server rejected in partial successes. */
  rejected: number;
  /** Spans in requests that failed. */
  refused: number;
  /** Lines that cannot be read, and files that end in the middle of a line. */
  skipped: number;
  /** Requests with a final answer. */
  requests: number;
  /** Attempts after the first one. */
  retries: number;
  /** Bytes of files, before decompression. */
  bytesRead: number;
  /** Bytes of bodies, with those of retries. */
  bytesSent: number;
  /** The last failure, while requests are retried. */
  trouble: string | undefined;
};

export function newTally(): Tally {
  return {
    lines: 0,
    spans: 0,
    accepted: 0,
    rejected: 0,
    refused: 0,
    skipped: 0,
    requests: 0,
    retries: 0,
    bytesRead: 0,
    bytesSent: 0,
    trouble: undefined,
  };
}

/** Spans with a final answer. */
export function answeredSpans({ accepted, rejected, refused }: Tally): number {
  return accepted + rejected + refused;
}
