import type { Capability } from '../component/capability.ts';
import { didYouMean } from '../component/did-you-mean.ts';
import type { Factory } from '../component/factory.ts';
import type { Declared } from './config.ts';
import type { Draft } from './draft.ts';
import { SECTIONS, type SectionName } from './registry.ts';
import { visit } from './shape.ts';
import { nodeAt, type Path, pathText } from './tree.ts';

/**
 * Checks every reference to an extension (`store: sqlite`): the extension is declared, started, and offers the
 * capability. Returns the extensions in their start order: as written, except that an extension starts before those
 * that refer to it.
 */
export function checkReferences(draft: Draft): readonly string[] {
  const started = checkStarted(draft);
  const needs = new Map<string, string[]>();
  for (const section of Object.keys(SECTIONS) as SectionName[]) {
    for (const component of draft[section].values()) {
      if (!isUsed(draft, section, component.id)) continue;
      const targets = checkComponent(draft, [section, component.id], component, started);
      if (section === 'extensions') needs.set(component.id, targets);
    }
  }
  return inStartOrder(draft, started, needs);
}

function checkStarted(draft: Draft): readonly string[] {
  const declared = [...draft.extensions.keys()];
  const started: string[] = [];
  for (const [index, id] of draft.service.extensions.entries()) {
    const path: Path = ['service', 'extensions', index];
    if (started.includes(id)) draft.report('error', path, `names the extension "${id}" twice`);
    else if (draft.extensions.has(id)) started.push(id);
    else if (!isWritten(draft, id)) {
      draft.report(
        'error',
        path,
        `references extension "${id}" which is not configured${didYouMean(id, declared)}`,
      );
    }
  }
  for (const id of declared) {
    if (draft.service.extensions.includes(id) || !draft.isServiceSound) continue;
    draft.report(
      'warning',
      ['extensions', id],
      'service.extensions does not name this extension: it is not started',
    );
  }
  return started;
}

/** The file declares it; if its type is unknown, that is reported there. */
function isWritten(draft: Draft, id: string): boolean {
  return nodeAt(draft.root, ['extensions', id]) !== undefined;
}

/** Whether a pipeline or `service.extensions` names it, so that it is started. */
export function isUsed(draft: Draft, section: SectionName, id: string): boolean {
  if (section === 'extensions') return draft.service.extensions.includes(id);
  return draft.pipelines.some((pipeline) =>
    section === 'connectors'
      ? pipeline.exporters.includes(id) || pipeline.receivers.includes(id)
      : pipeline[section].includes(id),
  );
}

/** Returns the ids that the component refers to. */
function checkComponent(
  draft: Draft,
  path: Path,
  component: Declared<Draft['registry'][number]>,
  started: readonly string[],
): string[] {
  const targets: string[] = [];
  if (component.config === undefined) return targets;
  visit(component.factory.config, component.config, (field, value, marks) => {
    if (marks.capability === undefined || typeof value !== 'string') return;
    const fault = faultOf(draft, value, marks.capability, started);
    if (fault === undefined) targets.push(value);
    else draft.report('error', [...path, ...field], fault);
  });
  checkNeed(draft, path, component);
  return targets;
}

function checkNeed(draft: Draft, path: Path, { factory, config }: Declared<Factory>): void {
  const need = factory.needs?.(config);
  if (need === undefined) return;
  const provided = draft.extensions.get(need.extension)?.factory.provides;
  // A missing extension is already reported.
  if (provided === undefined || provided.includes(need.capability)) return;
  const severity = need.isOptional === true ? 'warning' : 'error';
  draft.report(severity, [...path, need.field], need.message);
}

function faultOf(
  draft: Draft,
  id: string,
  capability: Capability<unknown>,
  started: readonly string[],
): string | undefined {
  const able = draft.registry.filter(
    (factory) => factory.kind === 'extension' && factory.provides.includes(capability),
  );
  const ableTypes = able.map((factory) => factory.type);
  const fitting = [...draft.extensions.values()]
    .filter(({ factory }) => ableTypes.includes(factory.type))
    .map((extension) => extension.id);
  const extension = draft.extensions.get(id);
  if (extension === undefined) {
    if (isWritten(draft, id)) return undefined;
    const choice =
      fitting.length > 0
        ? `configured are ${fitting.join(', ')}`
        : `add one of ${ableTypes.join(', ')} under extensions`;
    return `references extension "${id}" which is not configured${didYouMean(id, fitting)} (${choice})`;
  }
  if (!extension.factory.provides.includes(capability)) {
    return `extension "${id}" does not offer ${capability.name} (types that do: ${ableTypes.join(', ')})`;
  }
  if (!started.includes(id) && draft.isServiceSound) {
    return `extension "${id}" is configured but not started; add it to ${pathText(['service', 'extensions'])}`;
  }
  return undefined;
}

function inStartOrder(
  draft: Draft,
  started: readonly string[],
  needs: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const ordered: string[] = [];
  const entered = new Set<string>();
  const enter = (id: string) => {
    if (ordered.includes(id)) return;
    if (entered.has(id)) {
      draft.report('error', ['extensions', id], 'extensions refer to each other in a cycle');
      return;
    }
    entered.add(id);
    for (const needed of needs.get(id) ?? []) enter(needed);
    entered.delete(id);
    ordered.push(id);
  };
  started.forEach(enter);
  return ordered;
}
