/** A code of docs/errors.md. */
export type ErrorEntry = {
  readonly code: string;
  readonly meaning: string;
  /** The change that helps; undefined if the table of the code has no such column. */
  readonly remedy: string | undefined;
};

/** The tables that a client meets: refused requests, and rejected items. */
const SECTIONS = ['## Refused requests', '## Rejected items'];

/** Reads the codes of docs/errors.md, in its order. */
export function entriesOf(page: string): readonly ErrorEntry[] {
  const entries: ErrorEntry[] = [];
  let isWanted = false;
  let titles: readonly string[] = [];
  for (const line of page.split('\n')) {
    if (line.startsWith('## ')) {
      isWanted = SECTIONS.includes(line.trim());
      titles = [];
    }
    if (!isWanted || !line.startsWith('|') || line.startsWith('|---')) continue;
    const cells = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (titles.length === 0) titles = cells;
    else entries.push(...entryOf(titles, cells));
  }
  return entries;
}

function entryOf(titles: readonly string[], cells: readonly string[]): ErrorEntry[] {
  const cell = (title: string): string | undefined => cells[titles.indexOf(title)];
  const code = /`(\w+)`/.exec(cell('code') ?? '')?.[1];
  if (code === undefined) return [];
  return [{ code, meaning: plain(cell('meaning') ?? ''), remedy: remedyOf(cell('remedy')) }];
}

function remedyOf(cell: string | undefined): string | undefined {
  return cell === undefined ? undefined : plain(cell);
}

/** Text without the marks of links and code. */
function plain(markdown: string): string {
  return markdown
    .replace(/ ?\(\[[^\]]*\]\([^)]*\)\)/g, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('`', '');
}

/** The change that helps, for each rejected item: the table of the page has no such column. */
export const ITEM_REMEDIES: Readonly<Record<string, string>> = {
  invalid_event: 'Send each item of the list as a JSON object.',
  missing_field:
    'Send id, trace_id, operation, kind and status with each event; the reason names the field that is absent.',
  invalid_field:
    'Correct the field that the reason names: its type, its form, or one of the accepted values.',
  invalid_custom_fields: 'Send custom_fields as an object, or leave it out.',
  payload_too_large:
    'Send less than 4 MiB in each of inputs, outputs, events and metadata: cut long texts, and leave out images and files.',
};

/** The change that helps, as a sentence. */
export function adviceOf(code: string, entries: readonly ErrorEntry[]): string {
  if (Object.hasOwn(ITEM_REMEDIES, code)) return ITEM_REMEDIES[code] ?? '';
  const remedy = entries.find((entry) => entry.code === code)?.remedy;
  if (remedy === undefined) return 'The reason says what was wrong.';
  const text = remedy.charAt(0).toUpperCase() + remedy.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
