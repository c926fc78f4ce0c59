import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import type { Logger } from '../component/component.ts';
import type { ServiceConfig } from '../config/config.ts';
import {
  checkConfig,
  formatIssue,
  type Loaded,
  namedComponents,
  readConfig,
} from '../config/load.ts';
import type { ReadFile } from '../config/read.ts';
import { ControlError } from '../control/protocol.ts';
import type { Service } from '../engine/service.ts';
import { allFactories, factoriesOf } from '../registry.ts';
import { CommandError, EXIT } from './exit-status.ts';
import type { Terminal } from './terminal.ts';

export type ConfigOptions = {
  readonly config: readonly string[];
  readonly set: readonly string[];
  /** `run --print-key`. */
  readonly printKey?: boolean;
  /** Returns the text of a file; reads the file by default. */
  readonly read?: ReadFile;
};

/** The configuration file when no `--config` is given; `init` writes it. */
export const DEFAULT_FILE = 'tracectl.yaml';

/** Adds `--config` and `--set` to a command. */
export function withConfigOptions(command: Command): Command {
  return command
    .addOption(
      new Option('-c, --config <file>', 'configuration file; repeatable, later files override')
        .argParser(collect)
        .default([], DEFAULT_FILE),
    )
    .addOption(
      new Option(
        '--set <path=value>',
        'a setting that overrides all files; repeatable; keys with a dot in quotes',
      )
        .argParser(collect)
        .default([], 'none'),
    );
}

function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

/** The files that the options name. */
export function filesOf({ config }: ConfigOptions): readonly string[] {
  return config.length === 0 ? [DEFAULT_FILE] : config;
}

/** Loads the files of the options. Errors of the configuration are in the result, not thrown. */
export async function loadFiles(options: ConfigOptions, terminal: Terminal): Promise<Loaded> {
  const files = filesOf(options);
  if (options.config.length === 0 && !existsSync(resolve(terminal.cwd, DEFAULT_FILE))) {
    throw new CommandError(
      EXIT.usage,
      `no configuration: ${DEFAULT_FILE} does not exist here. Give --config FILE, or run "tracectl init"`,
    );
  }
  const { env, cwd } = terminal;
  const { set: sets, read } = options;
  const given = readConfig({ files, sets, env, cwd, ...(read && { read }) });
  const loaded = checkConfig(given, await factoriesOf(namedComponents(given)));
  // An issue may name components that the configuration does not have.
  return loaded.issues.length === 0 ? loaded : checkConfig(given, await allFactories());
}

/**
 * Loads a configuration, and throws a `CommandError` when it is not valid. Its errors go to stderr; `warns`
 * prints its warnings too, for commands about the configuration.
 */
export async function loadOrFail(
  options: ConfigOptions,
  terminal: Terminal,
  { warns = false }: { readonly warns?: boolean } = {},
): Promise<ServiceConfig> {
  const { config, issues } = await loadFiles(options, terminal);
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

/** Loads the configuration for a reload. Throws a `ControlError` when there is none or it is not valid, and logs each error. */
export async function loadAgain(
  options: ConfigOptions,
  terminal: Terminal,
  logger: Logger,
  service: Pick<Service, 'reloadRefused'>,
): Promise<ServiceConfig> {
  const { config, issues } = await loadFiles(options, terminal).catch((error: unknown) => {
    service.reloadRefused();
    logger.error(
      { err: error },
      'New configuration could not be read; the running one stays in force',
    );
    const message = error instanceof Error ? error.message : String(error);
    throw new ControlError('invalid_configuration', message);
  });
  for (const { severity, at, path, message } of issues) {
    const fields = { at, path, issue: message };
    if (severity === 'error') logger.error(fields, 'Configuration has an error');
    else logger.warn(fields, 'Configuration has a warning');
  }
  if (config !== undefined) return config;
  service.reloadRefused();
  logger.error({}, 'New configuration is not valid; the running one stays in force');
  throw new ControlError('invalid_configuration', issues.map(formatIssue).join('\n'));
}
