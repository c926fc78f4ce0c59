import type { Command } from 'commander';
import { jsonSchema } from '../config/json-schema.ts';
import { allFactories } from '../registry.ts';
import type { Terminal } from './terminal.ts';

export function addSchema(program: Command, terminal: Terminal) {
  program
    .command('schema')
    .description('print the JSON Schema of the configuration')
    .action(async () => {
      terminal.out(JSON.stringify(jsonSchema(await allFactories()), null, 2));
    });
}
