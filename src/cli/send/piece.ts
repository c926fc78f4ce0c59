/** A line of one of the sources. */
export type Position = { readonly source: number; readonly line: number };

/** What one request carries. */
export type Piece = {
  /** Where it comes from, for people: `FILE:3`, `FILE:3-7`. */
  readonly name: string;
  readonly spans: number;
  /** Where it begins, and where whoever has sent it goes on; undefined for what comes from no file. */
  readonly from: Position | undefined;
  readonly next: Position | undefined;
  encode(): Buffer | Promise<Buffer>;
  /** Parts that are it together; none where it cannot be parted. */
  halves(): readonly Piece[];
};
