import type { Issue } from './config.ts';
import { readYaml } from './read.ts';
import { type ConfigNode, isNull, type MapEntry, type Path, pathText } from './tree.ts';

/**
 * Lays `over` on `base`: maps are merged key by key, any other value (lists too) is replaced. A null that replaces
 * a map with content is valid but rarely intended, so it is a warning.
 */
export function mergeConfig(
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
      const value = mergeConfig(below?.value, entry.value, issues, [...path, key]);
      entries.set(key, { keyAt: entry.keyAt ?? below?.keyAt, value });
    }
    return { ...over, at: over.at ?? base.at, entries };
  }
  if (base.kind === 'map' && base.entries.size > 0 && isNull(over)) {
    issues.push({
      severity: 'warning',
      at: over.at,
      path: pathText(path),
      message: `an empty value replaces the earlier value (${[...base.entries.keys()].join(', ')}); write {} to keep it`,
    });
  }
  return over;
}

/** `a.b."c.d"=value`: keys in quotes may have dots and equals signs. */
const SETTING = /^((?:"[^"]+"|[^".=]+)(?:\.(?:"[^"]+"|[^".=]+))*)=(.*)$/s;

/** `a.b.c=value` as a tree; the value is read as YAML. Undefined, with an issue, if the form is wrong. */
export function readSetting(setting: string, issues: Issue[]): ConfigNode | undefined {
  const [, keys, text] = SETTING.exec(setting) ?? [];
  if (keys === undefined || text === undefined) {
    const message =
      '--set takes path=value, such as --set service.telemetry.logs.level=debug; a key with a dot is in quotes, such as --set \'exporters."file/a.b".path=./b.jsonl\'';
    issues.push({
      severity: 'error',
      at: undefined,
      path: /^(.*?)=/.exec(setting)?.[1] ?? '',
      message,
    });
    return undefined;
  }
  const path = [...keys.matchAll(/"([^"]+)"|[^".]+/g)].map(([key, quoted]) => quoted ?? key);
  const found: Issue[] = [];
  const value = readYaml(text, undefined, found) ?? { kind: 'scalar', value: null, at: undefined };
  // A value that is not valid YAML (`@host`, `a: b: c`) is a plain text.
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
