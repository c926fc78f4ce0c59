import { resolve } from 'node:path';
import type { Draft } from './draft.ts';
import { isUsed } from './references.ts';
import { visit } from './shape.ts';
import { type Path, pathText } from './tree.ts';

/** Finds two components that would write one file, or own one directory, before the start does. */
export function checkOwnedPaths(draft: Draft): void {
  const owners = new Map<string, Path>();
  for (const { path, key, shown } of ownedPaths(draft)) {
    const owner = owners.get(key);
    if (owner === undefined) owners.set(key, path);
    else {
      const message = `${shown} belongs to ${pathText(owner)}, and only one component can write it; give each a path of its own`;
      draft.report('error', path, message);
    }
  }
}

type OwnedPath = { readonly path: Path; readonly key: string; readonly shown: string };

function ownedPaths(draft: Draft): OwnedPath[] {
  const found: OwnedPath[] = [];
  for (const section of ['extensions', 'exporters'] as const) {
    for (const { id, factory, config } of draft[section].values()) {
      if (config === undefined || !isUsed(draft, section, id)) continue;
      visit(factory.config, config, (field, value, { owns }) => {
        if (owns === undefined || typeof value !== 'string') return;
        found.push({
          path: [section, id, ...field],
          key: `${owns} ${resolve(value)}`,
          shown: value,
        });
      });
    }
  }
  return found;
}
