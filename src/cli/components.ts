import type { Command } from 'commander';
import { stringify } from 'yaml';
import type { Factory } from '../component/factory.ts';
import { SECTIONS } from '../config/registry.ts';
import { allFactories } from '../registry.ts';
import { packageVersion } from './package-root.ts';
import type { Terminal } from './terminal.ts';

export function addComponents(program: Command, terminal: Terminal) {
  program
    .command('components')
    .description('list the built-in components')
    .option('--json', 'print JSON instead of YAML')
    .action(async (options: { json?: boolean }) => {
      const listed = await list();
      terminal.out(
        options.json === true ? JSON.stringify(listed, null, 2) : stringify(listed).trim(),
      );
    });
}

async function list(): Promise<Record<string, unknown>> {
  const all = await allFactories();
  const sections = Object.entries(SECTIONS).map(([section, kind]) => {
    const factories: readonly Factory[] = all.filter((factory) => factory.kind === kind);
    return [section, factories.map(describe)];
  });
  return { version: packageVersion(), ...Object.fromEntries(sections) };
}

function describe(factory: Factory): Record<string, unknown> {
  const { type, aliases, stability, description } = factory;
  return { type, ...(aliases === undefined ? {} : { aliases }), stability, description };
}
