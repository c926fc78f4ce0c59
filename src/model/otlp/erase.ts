import type { OtlpIndex } from '../batch-index.ts';
import type { ScanLimits } from '../format-module.ts';
import { spliceJson } from '../json/edit.ts';
import type { Splice } from '../texts.ts';
import { spanField } from './context.ts';
import { cutJson, cutProtoWhere } from './cut.ts';
import { OtlpField, RESOURCE_STRIDE, ResourceField, SCOPE_STRIDE, ScopeField } from './fields.ts';
import { scanJson } from './json-scan.ts';

/** The limits of a body that was accepted once. */
const ACCEPTED: ScanLimits = { maxItems: Number.MAX_SAFE_INTEGER, maxDepth: 1024 };

/** `FormatModule.erase` for protobuf: resources and scopes without a kept span go too. */
export function eraseProto(index: OtlpIndex, keep: readonly number[]): Buffer {
  const { resources, scopes } = emptied(index, keep);
  const gone = new Set([
    ...resources.map((each) => index.resources[each * RESOURCE_STRIDE + ResourceField.START]),
    ...scopes.map((each) => index.scopes[each * SCOPE_STRIDE + ScopeField.START]),
  ]);
  return cutProtoWhere(index, keep, (start) => gone.has(start));
}

/** The same for JSON. An empty object takes the place of a resource or scope. */
export function eraseJson(index: OtlpIndex, keep: readonly number[]): Buffer {
  const { resources, scopes } = emptied(index, keep);
  const goneResources = new Set(resources);
  const goneScopes = new Set(scopes);
  const splices: Splice[] = [
    ...resources.map((each) => emptyObject(index.resources, each * RESOURCE_STRIDE)),
    ...scopes
      .filter((each) => !goneResources.has(resourceOf(index, each)))
      .map((each) => emptyObject(index.scopes, each * SCOPE_STRIDE)),
  ];
  splices.sort((a, b) => a.start - b.start);
  const left = scanJson(spliceJson(index, splices), ACCEPTED);
  const kept = new Set(keep);
  const keptOfLeft: number[] = [];
  let next = 0;
  for (let position = 0; position < index.count; position++) {
    if (goneScopes.has(spanField(index, position, OtlpField.SCOPE))) continue;
    if (kept.has(position)) keptOfLeft.push(next);
    next++;
  }
  return cutJson(left, keptOfLeft);
}

/** The numbers of the resources and scopes that have spans, and keep none. */
function emptied(
  index: OtlpIndex,
  keep: readonly number[],
): { readonly resources: readonly number[]; readonly scopes: readonly number[] } {
  const resources = new Set(keep.map((at) => spanField(index, at, OtlpField.RESOURCE)));
  const scopes = new Set(keep.map((at) => spanField(index, at, OtlpField.SCOPE)));
  const without = (kept: ReadonlySet<number>, count: number): number[] =>
    Array.from({ length: count }, (_, each) => each).filter((each) => !kept.has(each));
  return {
    resources: without(resources, index.resources.length / RESOURCE_STRIDE),
    scopes: without(scopes, index.scopes.length / SCOPE_STRIDE),
  };
}

function resourceOf(index: OtlpIndex, scope: number): number {
  return index.scopes[scope * SCOPE_STRIDE + ScopeField.RESOURCE] ?? 0;
}

/** A record of a resource or scope begins with its range. */
function emptyObject(records: Uint32Array, at: number): Splice {
  return { start: records[at] ?? 0, end: records[at + 1] ?? 0, bytes: Buffer.from('{}') };
}
