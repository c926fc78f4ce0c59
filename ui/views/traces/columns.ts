/** The columns of the list. `sort` is the value of the request's parameter; columns without a `width` in pixels share the rest. */
export const COLUMNS = [
  { id: 'start', label: 'Time', width: 86, isNumber: false, sort: 'start' },
  { id: 'name', label: 'Name', width: 130, isNumber: false },
  { id: 'status', label: 'Status', width: 64, isNumber: false },
  { id: 'latency', label: 'Latency', width: 90, isNumber: true, sort: 'latency' },
  { id: 'ttft', label: 'First token', width: 92, isNumber: true },
  { id: 'tokens', label: 'Tokens', width: 70, isNumber: true, sort: 'tokens' },
  { id: 'cost', label: 'Cost', width: 98, isNumber: true, sort: 'cost' },
  { id: 'input', label: 'Input', isNumber: false },
  { id: 'output', label: 'Output', isNumber: false },
  { id: 'model', label: 'Models', width: 150, isNumber: false },
  { id: 'user', label: 'User', width: 105, isNumber: false },
  { id: 'session', label: 'Session', width: 100, isNumber: false },
  { id: 'observations', label: 'Observations', width: 120, isNumber: true },
  { id: 'environment', label: 'Environment', width: 110, isNumber: false },
  { id: 'tags', label: 'Tags', width: 140, isNumber: false },
  { id: 'scores', label: 'Scores', width: 140, isNumber: false },
  { id: 'source', label: 'Source', width: 80, isNumber: false },
  { id: 'id', label: 'Trace id', width: 130, isNumber: false },
] as const;

export type Column = (typeof COLUMNS)[number];
export type ColumnId = Column['id'];

/** The columns of a window that has no room for the usual ones. */
const FEW: readonly ColumnId[] = [
  ...(['start', 'name', 'status', 'latency', 'tokens', 'cost', 'input', 'output'] as const),
];
const USUAL: readonly ColumnId[] = [...FEW, 'user', 'session'];

/** The columns that a text names, in the order of the table; without one of them, the usual ones for the room. */
export function columnsOf(text: string | null | undefined, isNarrow = false): readonly Column[] {
  const wanted = (text ?? '').split(',');
  const named = COLUMNS.filter(({ id }) => wanted.includes(id));
  if (named.length > 0) return named;
  const usual = isNarrow ? FEW : USUAL;
  return COLUMNS.filter(({ id }) => usual.includes(id));
}

type Order = { readonly sort: string; readonly order: 'asc' | 'desc' };

/** The order that an address asks for; the newest trace first if it names none, or one that does not exist. */
export function orderOf(parameters: URLSearchParams): Order {
  const sort = parameters.get('sort');
  const isKnown = COLUMNS.some((each) => 'sort' in each && each.sort === sort);
  return {
    sort: isKnown && sort !== null ? sort : 'start',
    order: parameters.get('order') === 'asc' ? 'asc' : 'desc',
  };
}

/** Pixels that a column without a width needs. */
const LEAST_WIDTH = 103;

/** The least width of a table with these columns. In a narrower place it scrolls. */
export function leastWidth(columns: readonly Column[]): number {
  return columns.reduce((sum, each) => sum + ('width' in each ? each.width : LEAST_WIDTH), 0);
}

/** Shows a column, or hides it; the last one stays. */
export function toggleColumn(shown: readonly Column[], id: ColumnId): string {
  const ids = shown.map((each) => each.id);
  const after = ids.includes(id) ? ids.filter((each) => each !== id) : [...ids, id];
  return (after.length === 0 ? ids : after).join(',');
}
