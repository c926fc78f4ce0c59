import type { PayloadTexts } from '../../store/observation-json.ts';

/** Bytes or text of an answer; may be empty. */
export type Piece = string | Uint8Array;

/** Makes the bytes of an export from its rows, in their order. */
export type Encoder<Row> = {
  begin(): Piece;
  /** `payloads`: JSON texts, if the export has payloads. */
  row(row: Row, payloads: PayloadTexts | undefined): Piece | Promise<Piece>;
  end(): Piece | Promise<Piece>;
  /** Characters of rows that wait for their piece. */
  readonly waiting: number;
  close(): Promise<void>;
};

/** An encoder whose rows are independent of each other. */
export function rowEncoder<Row>(
  render: (row: Row, payloads: PayloadTexts | undefined) => string,
  header = '',
): Encoder<Row> {
  return {
    begin: () => header,
    row: render,
    end: () => '',
    waiting: 0,
    close: async () => {},
  };
}
