import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Logger } from '../component/component.ts';
import type { ServiceConfig } from '../config/config.ts';
import { formatIssue, type Loaded, loadConfig } from '../config/load.ts';
import type { ReadFile } from '../config/read.ts';
import { ControlError } from '../control/protocol.ts';
import type { Service } from '../engine/service.ts';
import { REGISTRY } from '../registry.ts';
import { CommandError, EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

export type ConfigOptions = {
  readonly config: readonly string[];
  readonly set: readonly string[];
  /** Gives the texts of files; reads them by default. */
  readonly read?: ReadFile;
};

/** Read when no `--config` is given; what `init` writes. */
export const DEFAULT_FILE = 'tracectl.yaml';

/** Adds `--config` and `--set` to a command. */
export function withConfigOptions(command: Command): Command {
  return command
    .option(
      '-c, --config <file>',
      `configuration; may be given again, later ones win (default: ${DEFAULT_FILE})`,
      collect,
      [],
    )
    .option('--set <path=value>', 'one setting, over all files; may be given again', collect, []);
}

function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

/** The files that the options name. */
export function filesOf({ config }: ConfigOptions): readonly string[] {
  return config.length === 0 ? [DEFAULT_FILE] : config;
}

/** Loads what the options name; what is wrong is in the result, not thrown. */
export function load(options: ConfigOptions, terminal: Terminal): Loaded {
  const files = filesOf(options);
  if (options.config.length === 0 && !existsSync(resolve(terminal.cwd, DEFAULT_FILE))) {
    throw new CommandError(
      EXIT.usage,
      `give --config FILE; there is no ${DEFAULT_FILE} here ("tracectl init" writes one)`,
    );
  }
  const { env, cwd } = terminal;
  const { set: sets, read } = options;
  return loadConfig({ files, sets, env, cwd, registry: REGISTRY, ...(read && { read }) });
}

/**
 * Loads a configuration that must be right; its errors go to stderr. Its warnings too, unless the command
 * is not about the configuration.
 */
export function loadOrFail(
  options: ConfigOptions,
  terminal: Terminal,
  { warns = false }: { readonly warns?: boolean } = {},
): ServiceConfig {
  const { config, issues } = load(options, terminal);
  for (const issue of issues) {
    if (warns || config === undefined) terminal.err(formatIssue(issue));
  }
  if (config !== undefined) return config;
  const errors = issues.filter((issue) => issue.severity === 'error').length;
  throw new CommandError(
    EXIT.configuration,
    `the configuration has ${errors} ${errors === 1 ? 'error' : 'errors'}`,
  );
}

/** Loads the configuration for a reload; what is wrong leaves the running one in place. Throws `ControlError`. */
export function loadAgain(
  options: ConfigOptions,
  terminal: Terminal,
  logger: Logger,
  service: Pick<Service, 'reloadRefused'>,
): ServiceConfig {
  const { config, issues } = load(options, terminal);
  for (const { severity, at, path, message } of issues) {
    const fields = { at, path, issue: message };
    if (severity === 'error') logger.error(fields, 'The configuration has an error.');
    else logger.warn(fields, 'The configuration has an oddity.');
  }
  if (config !== undefined) return config;
  service.reloadRefused();
  logger.error({}, 'The configuration is wrong; the former one goes on running.');
  throw new ControlError('invalid_configuration', issues.map(formatIssue).join('\n'));
}
