import { replaceControls } from '../telemetry/control-characters.ts';
import { widthOf } from './width.ts';

/** The widest column. A longer cell, such as an id that a client chose, moves the rest of its own line only. */
const MOST_COLUMNS = 64;

/** Renders columns, each as wide as its longest cell. The columns that `right` names are aligned to the right, for numbers. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly string[] = [],
): string {
  const lines = [head, ...rows.map((row) => row.map(visible))];
  const widths = head.map((_, column) =>
    Math.min(MOST_COLUMNS, Math.max(...lines.map((line) => widthOf(line[column] ?? '')))),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const padding = ' '.repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell)));
          return right.includes(head[column] ?? '') ? padding + cell : cell + padding;
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Replaces control characters: names and ids are text of clients, and may hold terminal escapes. */
export function visible(text: string): string {
  return replaceControls(text);
}
