import { escapeControls } from './control-characters.ts';

/**
 * Renders a JSON log line as text:
 *
 *   2026-01-15T12:00:00.000Z  INFO  sqlite  Store opened  path=data/tracectl.db
 */
export function renderConsole(line: string): string {
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line;
  }
  const { time, level, message, component, err, error, ...rest } = parsed;
  const head = [
    String(time),
    String(level).toUpperCase().padEnd(5),
    ...(component === undefined ? [] : [String(component)]),
    String(message ?? ''),
  ];
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${fieldText(value)}`);
  const errors = errorText('err', err) + errorText('error', error);
  return `${escapeControls([...head, ...fields].join('  '))}${errors}\n`;
}

function fieldText(value: unknown): string {
  if (typeof value === 'string') return /[\s"=]/.test(value) ? JSON.stringify(value) : value;
  return JSON.stringify(value) ?? String(value);
}

/** An error with its causes on the line, and their stacks below it. */
function errorText(name: string, error: unknown): string {
  if (error === undefined) return '';
  if (typeof error !== 'object' || error === null)
    return `  ${name}=${escapeControls(fieldText(error))}`;
  const { message, code, stack, cause } = error as Record<string, unknown>;
  const said = code === undefined ? String(message) : `${String(code)}: ${String(message)}`;
  const trace = typeof stack === 'string' ? `\n${indent(stack)}` : '';
  return `  ${name}=${escapeControls(fieldText(said))}${errorText('cause', cause)}${trace}`;
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `    ${escapeControls(line)}`)
    .join('\n');
}
