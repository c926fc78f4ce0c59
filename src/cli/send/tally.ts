/** What has become of it all so far. Spans are observation events and runs where those are sent. */
export type Tally = {
  lines: number;
  /** Found in lines, or made. */
  spans: number;
  accepted: number;
  /** Left out by the destination of requests that it took. */
  rejected: number;
  /** In requests that it did not take. */
  refused: number;
  /** Lines that could not be read, and files that end in the middle. */
  leftOut: number;
  /** That were answered for good. */
  requests: number;
  /** Further tries of them. */
  retries: number;
  /** From files, compressed as they are. */
  bytesRead: number;
  /** Bodies as they left, those of further tries too. */
  bytesSent: number;
  /** Why requests are being tried again, while they are. */
  trouble: string | undefined;
};

export function newTally(): Tally {
  return {
    lines: 0,
    spans: 0,
    accepted: 0,
    rejected: 0,
    refused: 0,
    leftOut: 0,
    requests: 0,
    retries: 0,
    bytesRead: 0,
    bytesSent: 0,
    trouble: undefined,
  };
}

/** Spans that are answered for. */
export function answered({ accepted, rejected, refused }: Tally): number {
  return accepted + rejected + refused;
}
