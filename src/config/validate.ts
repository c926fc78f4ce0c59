import type { z } from 'zod';
import type { ComponentKind } from '../component/component.ts';
import { didYouMean } from '../component/did-you-mean.ts';
import type { Factory } from '../component/factory.ts';
import { check } from './check.ts';
import type { Declared, Issue, ServiceConfig } from './config.ts';
import type { Components, Draft } from './draft.ts';
import { typeHint } from './from-collector.ts';
import { checkGraph } from './graph.ts';
import { checkListeners } from './listeners.ts';
import { checkOwnedPaths } from './owned-paths.ts';
import { checkReferences } from './references.ts';
import { factoryFor, type Registry, SECTIONS, type SectionName, typesOf } from './registry.ts';
import { type ServiceSection, serviceSchema } from './service-schema.ts';
import { acceptsSection, schemaAt } from './shape.ts';
import {
  type ConfigNode,
  isNull,
  type MapEntry,
  type MapNode,
  nodeAt,
  type Path,
  pathText,
  placeOf,
} from './tree.ts';
import { checkWorkers } from './workers.ts';

const TOP_LEVEL = [...Object.keys(SECTIONS), 'service'];

/**
 * Checks an expanded configuration as a whole: every section against its schema, then the parts against each other.
 * Every problem is added to `issues`. Undefined if one of them is an error.
 */
export function validate(
  root: ConfigNode | undefined,
  registry: Registry,
  issues: Issue[],
): ServiceConfig | undefined {
  const report: Draft['report'] = (severity, path, message) => {
    issues.push({ severity, at: placeOf(root, path), path: pathText(path), message });
  };
  if (root === undefined || isNull(root) || (root.kind === 'map' && root.entries.size === 0)) {
    report('error', [], 'the configuration is empty; `tracectl init` writes one to start from');
    return undefined;
  }
  if (root.kind !== 'map') {
    report('error', [], 'a configuration is a map with receivers, exporters and service');
    return undefined;
  }
  checkTopLevel(root, report);
  const { service, isSound: isServiceSound } = serviceOf(root, issues);
  const draft: Draft = {
    root,
    registry,
    receivers: declared(root, 'receivers', registry, issues, report),
    processors: declared(root, 'processors', registry, issues, report),
    exporters: declared(root, 'exporters', registry, issues, report),
    connectors: declared(root, 'connectors', registry, issues, report),
    extensions: declared(root, 'extensions', registry, issues, report),
    service,
    isServiceSound,
    pipelines: Object.entries(service.pipelines).map(([id, parts]) => ({ id, ...parts })),
    report,
  };
  checkGraph(draft);
  checkListeners(draft);
  checkOwnedPaths(draft);
  const order = checkReferences(draft);
  checkWorkers(draft);
  return issues.some((issue) => issue.severity === 'error') ? undefined : finish(draft, order);
}

function checkTopLevel(root: MapNode, report: Draft['report']): void {
  for (const key of root.entries.keys()) {
    if (!TOP_LEVEL.includes(key)) {
      report(
        'error',
        [key],
        `unknown key "${key}"${didYouMean(key, TOP_LEVEL)} (allowed: ${TOP_LEVEL.join(', ')})`,
      );
    }
  }
  for (const section of ['receivers', 'exporters'] as const) {
    const node = nodeAt(root, [section]);
    const isEmpty = node === undefined || isNull(node);
    if (isEmpty || (node.kind === 'map' && node.entries.size === 0)) {
      report('error', [section], `no ${section} are configured; at least one is required`);
    }
  }
}

/** The service section; an invalid part of it is reported and counts as not given. */
function serviceOf(root: MapNode, issues: Issue[]): { service: ServiceSection; isSound: boolean } {
  const node = sectionOf(root, 'service');
  const service = check(serviceSchema, node, ['service'], issues);
  if (service !== undefined) return { service, isSound: true };
  const rest = soundPart(serviceSchema, node, 3);
  const sound = rest && check(serviceSchema, rest, ['service'], []);
  return { service: sound ?? serviceSchema.parse({}), isSound: false };
}

/** The map without its invalid entries, which are looked for `depth` levels deep. */
function soundPart(
  schema: z.core.$ZodType,
  node: ConfigNode,
  depth: number,
): ConfigNode | undefined {
  if (node.kind !== 'map' || !acceptsSection(schema)) return undefined;
  const entries = new Map<string, MapEntry>();
  for (const [key, entry] of node.entries) {
    const child = schemaAt(schema, [key]) as z.ZodType | undefined;
    if (child === undefined || isNull(entry.value)) continue;
    const isSound = check(child, entry.value, [], []) !== undefined;
    const value = isSound
      ? entry.value
      : depth > 1
        ? soundPart(child, entry.value, depth - 1)
        : undefined;
    if (value !== undefined) entries.set(key, { ...entry, value });
  }
  return { ...node, entries };
}

/** A section as a map; a section that is missing or has no value is an empty map. */
function sectionOf(root: MapNode, name: string): ConfigNode {
  const node = root.entries.get(name)?.value;
  const isGiven = node !== undefined && !isNull(node);
  return isGiven ? node : { kind: 'map', at: node?.at ?? root.at, entries: new Map() };
}

function declared<S extends SectionName>(
  root: MapNode,
  section: S,
  registry: Registry,
  issues: Issue[],
  report: Draft['report'],
): Components<(typeof SECTIONS)[S]> {
  const kind: (typeof SECTIONS)[S] = SECTIONS[section];
  const components = new Map<string, Declared<Extract<Factory, { kind: (typeof SECTIONS)[S] }>>>();
  const node = sectionOf(root, section);
  if (node.kind !== 'map') {
    report('error', [section], `expected a map of ${section} by id`);
    return components;
  }
  for (const [id, { keyAt, value }] of node.entries) {
    const type = typeOf(id, [section, id], report);
    if (type === undefined) continue;
    const factory = factoryFor(registry, kind, type);
    if (factory === undefined) {
      report('error', [section, id], unknownType(registry, kind, type, id));
      continue;
    }
    const settings: ConfigNode = isNull(value)
      ? { kind: 'map', at: keyAt, entries: new Map() }
      : value;
    components.set(id, {
      id,
      factory,
      config: check(factory.config, settings, [section, id], issues),
    });
  }
  return components;
}

/** The type in an id; undefined, with an issue, when it is not `type` or `type/name`. */
function typeOf(id: string, path: Path, report: Draft['report']): string | undefined {
  const match = /^([A-Za-z][A-Za-z0-9_]{0,62})(?:\/([^\s\p{C}]{1,255}))?$/u.exec(id);
  if (match !== null) return match[1];
  report(
    'error',
    path,
    `"${id}" is not an id; write type or type/name, such as otlp or otlp/second`,
  );
  return undefined;
}

function unknownType(registry: Registry, kind: ComponentKind, type: string, id: string): string {
  const known = typesOf(registry, kind);
  const elsewhere = registry.find((factory) => factory.type === type)?.kind;
  const other = elsewhere === undefined ? '' : `; "${type}" is a type of ${elsewhere}`;
  const hint = typeHint(kind, type) || didYouMean(type, known) || other;
  return `unknown type "${type}" for ${kind} "${id}"${hint} (valid: ${known.join(', ')})`;
}

function finish(draft: Draft, extensions: readonly string[]): ServiceConfig {
  const { receivers, processors, exporters, connectors, service } = draft;
  const address = nodeAt(draft.root, ['service', 'telemetry', 'metrics', 'address']);
  const addressIsConfigured = address !== undefined && !isNull(address);
  const { logs, metrics } = service.telemetry;
  return {
    receivers,
    processors,
    exporters,
    connectors,
    extensions: draft.extensions,
    service: {
      extensions,
      pipelines: draft.pipelines,
      telemetry: { logs, metrics: { ...metrics, addressIsConfigured } },
      workers: service.workers,
      limits: service.limits,
      repeated_requests: service.repeated_requests,
      shutdown_timeout: service.shutdown_timeout,
    },
  };
}
