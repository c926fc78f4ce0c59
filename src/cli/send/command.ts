import { type Command, Option } from 'commander';
import type { Terminal } from '../terminal.ts';
import { type RawOptions, readOptions } from './options.ts';
import type { SampleKind } from './sample.ts';
import { runSend } from './send.ts';

export function addSend(program: Command, terminal: Terminal, end: (status: number) => void) {
  const group = program
    .command('send')
    .description('send spans: from files of the OpenTelemetry Collector, or samples');
  const add = (kind: SampleKind, description: string): Command =>
    withSendOptions(group.command(kind).description(description)).action(async (raw: RawOptions) =>
      end(await runSend(readOptions(kind, raw, terminal), terminal)),
    );
  add('otlp', 'send files in the otlp_json form (one request per line), or sample spans')
    .option('-f, --file <file>', 'plain, gzip or zstd; - is stdin; repeatable', collect)
    .option('--from-line <n>', 'first line to send of the first file')
    .option(
      '--max-spans <n>',
      'cut and join lines to requests of n spans (default: each line unchanged)',
    )
    .addOption(
      new Option('--encoding <encoding>', 'encoding of requests')
        .choices(['protobuf', 'json'])
        .default('protobuf'),
    );
  add('native', 'send sample observation events');
  add('runs', 'send sample runs');
}

function withSendOptions(command: Command): Command {
  return command
    .option('--count <n>', 'generate n traces of three spans each')
    .option('--endpoint <url>', 'server; the usual path is added', 'http://127.0.0.1:4318')
    .option('--key <key>', 'API key, as a bearer token (default: TRACECTL_KEY)')
    .option('--header <name=value>', 'header of every request; repeatable', collect)
    .addOption(
      new Option('--compression <compression>', 'compression of request bodies')
        .choices(['gzip', 'zstd', 'none'])
        .default('gzip'),
    )
    .option('--rate <n>', 'spans per second (default: no limit)')
    .option('--concurrency <n>', 'requests in flight', '4')
    .option('--retry-for <duration>', 'how long to retry a request', '5m')
    .option('--ca-file <file>', 'certificate authorities to trust, for https')
    .option('--dry-run', 'read and count without sending')
    .option('-q, --quiet', 'print only errors, no progress and no summary')
    .option('--json', 'print the summary as JSON');
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
