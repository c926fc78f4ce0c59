import { type Command, Option } from 'commander';
import type { Terminal } from '../terminal.ts';
import { type RawOptions, readOptions } from './options.ts';
import type { SampleKind } from './sample.ts';
import { send } from './send.ts';

export function addSend(program: Command, terminal: Terminal, end: (status: number) => void) {
  const group = program
    .command('send')
    .description('send spans: from files of the OpenTelemetry Collector, or made up');
  const add = (kind: SampleKind, description: string): Command =>
    withSendOptions(group.command(kind).description(description)).action(async (raw: RawOptions) =>
      end(await send(readOptions(kind, raw, terminal), terminal)),
    );
  add('otlp', 'send files in the otlp_json form (one request a line), or sample spans')
    .option('-f, --file <file>', 'plain, .gz or .zst; - is stdin; may be given again', collect)
    .option('--from-line <n>', 'begin at this line of the first file')
    .option('--max-spans <n>', 'spans of a request, at most (default: each line as it is)')
    .addOption(
      new Option('--encoding <encoding>', 'what requests are sent as')
        .choices(['protobuf', 'json'])
        .default('protobuf'),
    );
  add('native', 'send sample observation events');
  add('runs', 'send sample runs');
}

function withSendOptions(command: Command): Command {
  return command
    .option('--count <n>', 'make up so many traces, of three spans each')
    .option('--endpoint <url>', 'where to; the usual path is added', 'http://127.0.0.1:4318')
    .option('--key <key>', 'API key, as a bearer token (default: TRACECTL_KEY)')
    .option('--header <name=value>', 'of every request; may be given again', collect)
    .addOption(
      new Option('--compression <compression>', 'of request bodies')
        .choices(['gzip', 'zstd', 'none'])
        .default('gzip'),
    )
    .option('--rate <n>', 'spans a second (default: as fast as they are taken)')
    .option('--concurrency <n>', 'requests at once', '4')
    .option('--retry-for <duration>', 'how long a request is tried again', '5m')
    .option('--ca-file <file>', 'certificates to trust, for https')
    .option('--dry-run', 'read and count, send nothing')
    .option('-q, --quiet', 'show no progress and no summary, only what goes wrong')
    .option('--json', 'print the summary as JSON');
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
