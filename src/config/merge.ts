import type { Issue } from './config.ts';
import { readYaml } from './read.ts';
import { type ConfigNode, isNull, type MapEntry, type Path, pathText } from './tree.ts';

/**
 * Lays `over` on `base`: maps are joined key by key, anything else (lists too) is replaced. A null that
 * wipes a map with content is what the file says, and almost never what was meant: a warning.
 */
export function merge(
  base: ConfigNode | undefined,
  over: ConfigNode,
  issues: Issue[],
  path: Path = [],
): ConfigNode {
  if (base === undefined) return over;
  if (base.kind === 'map' && over.kind === 'map') {
    const entries = new Map<string, MapEntry>(base.entries);
    for (const [key, entry] of over.entries) {
      const below = base.entries.get(key);
      const value = merge(below?.value, entry.value, issues, [...path, key]);
      entries.set(key, { keyAt: entry.keyAt ?? below?.keyAt, value });
    }
    return { ...over, at: over.at ?? base.at, entries };
  }
  if (base.kind === 'map' && base.entries.size > 0 && isNull(over)) {
    issues.push({
      severity: 'warning',
      at: over.at,
      path: pathText(path),
      message: `an empty value replaces everything given before (${[...base.entries.keys()].join(', ')}); write {} to keep it`,
    });
  }
  return over;
}

/** `a.b.c=value` as a tree; the value is read as YAML. Undefined, with an issue, when it is not one. */
export function readSetting(setting: string, issues: Issue[]): ConfigNode | undefined {
  const equals = setting.indexOf('=');
  const path = setting.slice(0, equals).split('.');
  if (equals < 1 || path.includes('')) {
    issues.push({
      severity: 'error',
      at: undefined,
      path: equals < 1 ? '' : setting.slice(0, equals),
      message: '--set takes path=value, such as --set service.telemetry.logs.level=debug',
    });
    return undefined;
  }
  const found: Issue[] = [];
  const text = setting.slice(equals + 1);
  const value = readYaml(text, undefined, found) ?? { kind: 'scalar', value: null, at: undefined };
  // A text that is no YAML (`@host`, `a: b: c`) is just a text.
  const node: ConfigNode =
    found.length === 0 ? value : { kind: 'scalar', value: text, at: undefined };
  return path.reduceRight<ConfigNode>(
    (inner, key) => ({
      kind: 'map',
      at: undefined,
      entries: new Map([[key, { keyAt: undefined, value: inner }]]),
    }),
    node,
  );
}
