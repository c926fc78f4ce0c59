import type { ComponentChildren, JSX } from 'preact';
import './record-table.css';

export type RecordColumn<Row> = {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
  /** The cell that names the row. */
  readonly isHead?: boolean;
  /** Buttons: the column has no visible title. */
  readonly isActions?: boolean;
};

type Props<Row> = {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly columns: readonly RecordColumn<Row>[];
  readonly classOf?: (row: Row) => string;
};

/** A table of few rows. On a narrow screen each row is a card with the names of the columns beside the values. */
export function RecordTable<Row>(props: Props<Row>): JSX.Element {
  const { label, rows, keyOf, columns, classOf } = props;
  return (
    <div class="records-scroll">
      <table class="records" aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ name, isNumber, isActions }) => (
              <th key={name} scope="col" class={isNumber === true ? 'number' : ''}>
                {isActions === true ? <span class="unseen">{name}</span> : name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={classOf?.(row) ?? ''}>
              {columns.map((column) => (
                <Cell key={column.name} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<Row>({ column, row }: { column: RecordColumn<Row>; row: Row }): JSX.Element {
  const content = column.cell(row);
  if (column.isHead === true) return <th scope="row">{content}</th>;
  const kind = column.isActions === true ? 'row-actions' : column.isNumber === true ? 'number' : '';
  return (
    <td class={kind} data-label={column.name}>
      <div>{content}</div>
    </td>
  );
}
