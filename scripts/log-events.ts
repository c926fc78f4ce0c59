import type { EventRule } from '../src/model/log-events.ts';
import * as data from '../src/model/log-events.ts';

/** The tables of docs/conventions.md about events in OTLP logs, made of the mapping. */
export function logEventTables(): string {
  const sources = data.EVENT_SOURCES.map((source) => [
    `\`${source.prefix}*\``,
    `\`${source.session}\``,
    source.turn === undefined ? 'the session' : `\`${source.turn}\`, else the session`,
    `\`user.id\`, ${source.users.map((key) => `\`${key}\``).join(', ')}`,
  ]);
  return [
    table(['events', 'session', 'trace', 'user'], sources),
    table(
      ['event', 'becomes', 'attributes of its span'],
      Object.entries(data.LOG_EVENTS).map(([name, rule]) => [
        `\`${name}\``,
        meaningOf(rule),
        rule.attributes.map(pairOf).join(', '),
      ]),
    ),
  ].join('\n\n');
}

function meaningOf({ role, kind, key, failure, only }: EventRule): string {
  const parts = [ROLES[role ?? 'observation'].replace('KIND', `\`${kind}\``)];
  if (key !== undefined) parts.push(`identified by \`${key}\``);
  if (failure !== undefined) {
    const values = failure.values.map((value) => `\`${value}\``).join(', ');
    parts.push(`an error if \`${failure.key}\` is ${values}`);
  }
  if (only !== undefined) {
    const counted = only.with === undefined ? '' : ` and \`${only.with}\``;
    parts.push(`only with \`${only.key}\` \`${only.value}\`${counted}, or an error`);
  }
  return parts.join('; ');
}

const ROLES = {
  root: 'the root of its trace, of kind KIND',
  prompt: 'the root of its trace with its input, of kind KIND',
  update: 'more about an observation of kind KIND',
  observation: 'an observation of kind KIND',
} as const;

function pairOf({ from, to }: data.LogAttribute): string {
  return `${from.map((key) => `\`${key}\``).join(', ')} → \`${to}\``;
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [columns, columns.map(() => '---'), ...rows];
  return lines.map((row) => `| ${row.join(' | ')} |`).join('\n');
}
