import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import type { ExportPart } from '../../control/exports.ts';
import { Refusal } from '../../model/errors.ts';
import type { ExportRequest } from '../../read/export/request.ts';
import { exportRequest } from '../../read/export/request.ts';
import { CommandError, EXIT } from '../exit-status.ts';
import { QUERY_HELP } from '../query-argument.ts';
import { countText, sizeText } from '../send/progress.ts';
import type { StoreOptions } from '../store-command.ts';
import { given, openStoreSession, print, withStoreOptions } from '../store-command.ts';
import type { Terminal } from '../terminal.ts';
import { timeArgument } from '../time-argument.ts';
import type { Manifest } from './finish.ts';
import { draftedManifest, draftManifest, nameManifest, writeParquet } from './finish.ts';
import { PartialFile, removePartial } from './partial.ts';

type ExportOptions = StoreOptions & {
  readonly project?: string;
  readonly output: string;
  readonly format: string;
  readonly of?: string;
  readonly from?: string;
  readonly to?: string;
  readonly fields?: string;
  readonly payloads?: boolean;
  readonly resume?: boolean;
};

/** Rows and bytes of a part: what is lost and fetched again when an export breaks. */
const PART_ROWS = 10_000;
const PART_BYTES = 4 * 1_048_576;
const STDOUT = '-';

const EXAMPLES = `
An export is written to FILE.partial, and gets its name and FILE.manifest.json (rows, bytes, SHA-256) when it is complete. After a
break or Ctrl-C, the same command with --resume goes on.

Examples:
  tracectl export --output traces.jsonl
  tracectl export 'status:error model:gpt-4o*' --from 2026-11-01T00:00:00Z --of observations --payloads --output errors.jsonl
  tracectl export --format csv --fields name,user_id,cost --output costs.csv
  tracectl export --format otlp --output spans.jsonl && tracectl send otlp --file spans.jsonl
  tracectl export --project web --format parquet --of observations --output web.parquet
  tracectl export 'user:jane' --output - | jq -r .id`;

export function addExport(
  program: Command,
  terminal: Terminal,
  end: (status: number) => void,
): void {
  withStoreOptions(program.command('export'))
    .description('write all traces or observations that match a query to a file')
    .argument('[query]', QUERY_HELP)
    .requiredOption('--output <file>', 'the file to write; - is stdout')
    .option('--project <project>', 'id or name; required if there are several')
    .option('--format <format>', 'jsonl, csv, parquet or otlp', 'jsonl')
    .option('--of <rows>', 'traces (the default) or observations (of otlp always)')
    .option('--from <time>', 'ISO 8601 date or time, inclusive', timeArgument)
    .option('--to <time>', 'ISO 8601 date or time, exclusive', timeArgument)
    .option('--fields <names>', 'members or columns, with commas between (default: all)')
    .option('--payloads', 'with inputs, outputs, events and metadata of observations')
    .option('--resume', 'go on with an export that ended early')
    .addHelpText('after', EXAMPLES)
    .action(async (query: string | undefined, options: ExportOptions) => {
      end(await exportTo(query ?? '', options, terminal));
    });
}

async function exportTo(
  query: string,
  options: ExportOptions,
  terminal: Terminal,
): Promise<number> {
  const parameters = parametersOf(query, options);
  const request = checked(parameters);
  const session = await openStoreSession(options, terminal);
  let isStopped = false;
  const forget = terminal.onInterrupt?.(() => {
    isStopped = true;
  });
  const run = { options, terminal, request, parameters, isStopped: () => isStopped };
  const part = async (project: string | undefined, after: string | null): Promise<ExportPart> => {
    const asked = new URLSearchParams(partOf(parameters));
    if (after !== null) asked.set('after', after);
    const args = given({ project: project ?? options.project, query: asked.toString() });
    return (await session.run('export.part', args)) as ExportPart;
  };
  try {
    return options.output === STDOUT ? await toStdout(run, part) : await toFile(run, part);
  } finally {
    forget?.();
    await session.close();
  }
}

type Run = {
  readonly options: ExportOptions;
  readonly terminal: Terminal;
  readonly request: ExportRequest;
  readonly parameters: Readonly<Record<string, string>>;
  isStopped(): boolean;
};
type FetchPart = (project: string | undefined, after: string | null) => Promise<ExportPart>;

async function toStdout({ terminal, request, isStopped }: Run, part: FetchPart): Promise<number> {
  const { outBytes } = terminal;
  if (request.format === 'parquet' || outBytes === undefined) {
    throw new CommandError(EXIT.usage, 'Parquet needs a file: --output FILE');
  }
  let next: string | null = null;
  let project: string | undefined;
  let isFirst = true;
  do {
    const some = await part(project, next);
    const isRead = await outBytes(bytesOf(some, request, isFirst));
    // As of every command: its reader has what it wants.
    if (!isRead) return EXIT.ok;
    ({ next, project } = some);
    isFirst = false;
  } while (next !== null && !isStopped());
  if (next === null) return EXIT.ok;
  terminal.err('Interrupted: there are more rows.');
  return EXIT.interrupted;
}

async function toFile(run: Run, part: FetchPart): Promise<number> {
  const { options, terminal, request, parameters } = run;
  const output = resolve(terminal.cwd, options.output);
  if (existsSync(output)) {
    const manifest = options.resume === true ? await draftedManifest(output) : undefined;
    if (manifest === undefined || !describes(manifest, run)) {
      throw new CommandError(EXIT.usage, `${output} exists: remove it first`);
    }
    return finish(run, output, manifest);
  }
  const partial = await PartialFile.open(output, options.resume === true);
  const query = new URLSearchParams(parameters).toString();
  const begun = partial.state;
  if (begun !== undefined && begun.query !== query) {
    await partial.close();
    throw new CommandError(EXIT.usage, `${partial.path} is an export with other options`);
  }
  try {
    await fetchParts(run, part, partial, query);
  } catch (error) {
    if (partial.state === undefined) await removePartial(output);
    else terminal.err(goOn(run));
    throw error;
  } finally {
    terminal.screen?.write('\r\x1b[K');
    await partial.close();
  }
  const { state } = partial;
  if (state === undefined || state.next !== null) {
    terminal.err(`Interrupted. ${goOn(run)}`);
    return EXIT.interrupted;
  }
  const isParquet = request.format === 'parquet';
  const content = isParquet ? `${output}.tmp` : partial.path;
  if (isParquet) await writeParquet(partial.path, content, request);
  const manifest = await draftManifest(output, content, {
    ...{ file: basename(output), complete: true, rows: state.rows, project: state.project },
    ...askedOf(run),
    exported_at: new Date().toISOString(),
  });
  await rename(content, output);
  return finish(run, output, manifest);
}

/** The members of a manifest that the options of the command name. */
function askedOf({ options, request, parameters }: Run) {
  const { format, of, payloads } = request;
  const { from, to } = options;
  return {
    ...{ query: parameters.q ?? '', format, of, payloads: payloads !== 'false' },
    ...{ from: from ?? null, to: to ?? null },
  };
}

function describes(manifest: Manifest, run: Run): boolean {
  const { query, format, of, payloads, from, to } = manifest;
  return isDeepStrictEqual({ query, format, of, payloads, from, to }, askedOf(run));
}

/** The file has its name. A resumed export begins here if a crash left the rest. */
async function finish(
  { options, terminal }: Run,
  output: string,
  manifest: Manifest,
): Promise<number> {
  await removePartial(output);
  await nameManifest(output);
  print(manifest, options, terminal, ({ rows, of, bytes, sha256 }) => {
    return `Exported ${countText(rows)} ${of} to ${options.output} (${sizeText(bytes)}, SHA-256 ${sha256}).`;
  });
  return EXIT.ok;
}

async function fetchParts(
  { terminal, request, isStopped }: Run,
  part: FetchPart,
  partial: PartialFile,
  query: string,
): Promise<void> {
  while (partial.state?.next !== null && !isStopped()) {
    const { state } = partial;
    const some = await part(state?.project, state?.next ?? null);
    const rows = (state?.rows ?? 0) + some.rows;
    await partial.add(bytesOf(some, request, state === undefined), {
      ...{ query, project: some.project, rows, next: some.next },
    });
    const size = sizeText(partial.state?.bytes ?? 0);
    terminal.screen?.write(`\r${countText(rows)} ${request.of} exported, ${size} …\x1b[K`);
  }
}

/** The header of CSV is in every part, and in a file once. */
function bytesOf({ text }: ExportPart, { format }: ExportRequest, isFirst: boolean): Buffer {
  const start = format === 'csv' && !isFirst ? text.indexOf('\r\n') + 2 : 0;
  return Buffer.from(text.slice(start));
}

function goOn({ options: { output } }: Run): string {
  return `To go on, repeat the command with --resume. Exported so far: ${output}.partial`;
}

function parametersOf(q: string, options: ExportOptions): Readonly<Record<string, string>> {
  const { format, of, from, to, fields, payloads } = options;
  const all = { q, format, of, from, to, fields, payloads: payloads === true ? 'true' : undefined };
  return given(all) as Record<string, string>;
}

/** A Parquet file is made of JSON lines, whose payloads are texts. */
function partOf(parameters: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const bounds = { limit: String(PART_ROWS), max_bytes: String(PART_BYTES) };
  if (parameters.format !== 'parquet') return { ...parameters, ...bounds };
  const payloads = parameters.payloads === 'true' ? { payloads: 'text' } : {};
  return { ...parameters, ...payloads, format: 'jsonl', ...bounds };
}

function checked(parameters: Readonly<Record<string, string>>): ExportRequest {
  try {
    return exportRequest(new URLSearchParams(parameters));
  } catch (error) {
    if (error instanceof Refusal) throw new CommandError(EXIT.usage, error.message);
    throw error;
  }
}
