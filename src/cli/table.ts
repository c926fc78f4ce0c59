/** Renders columns, each as wide as its longest cell. The columns that `right` names are aligned to the right, for numbers. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly string[] = [],
): string {
  const lines = [head, ...rows.map((row) => row.map(visible))];
  const widths = head.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return right.includes(head[column] ?? '') ? cell.padStart(width) : cell.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Replaces control characters: names and ids are text of clients, and may hold terminal escapes. */
export function visible(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '\ufffd');
}
