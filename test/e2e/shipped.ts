import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import type { Tree } from './daemon.ts';

/** A configuration of config/. */
export function shippedConfig(name: string): Tree {
  const file = join(import.meta.dirname, '../../config', name);
  return parseYaml(readFileSync(file, 'utf8')) as Tree;
}

/** A map in a configuration. */
export function treeAt(config: Tree, ...path: readonly string[]): Tree {
  let found: unknown = config;
  for (const step of path) found = (found as Tree)[step];
  return found as Tree;
}

/** Replaces a configuration by another, but keeps its metrics address. */
export function replaceConfig(config: Tree, shipped: Tree): void {
  const { telemetry } = treeAt(config, 'service');
  for (const key of Object.keys(config)) delete config[key];
  Object.assign(config, shipped);
  treeAt(config, 'service').telemetry = telemetry;
}
