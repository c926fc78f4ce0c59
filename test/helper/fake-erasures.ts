import type { Clock } from '../../src/component/component.ts';
import { ErasureBlocks } from '../../src/store/erasing/blocks.ts';
import { erasureStore } from '../../src/store/erasing/erasure-store.ts';
import type { ErasureRow } from '../../src/store/erasing/tables.ts';
import type { ErasureStore } from '../../src/store/erasures.ts';
import type { ProjectStore } from '../../src/tenancy/contract.ts';

/** Erasures in memory, which are never carried out. */
export function fakeErasures(projects: Pick<ProjectStore, 'get'>, clock: Clock): ErasureStore {
  const held: (ErasureRow & { readonly n: number })[] = [];
  const of = (project: string) => held.filter((row) => row.project === project);
  const tables = {
    blocks: async () => [],
    add: async (row: ErasureRow) => void held.push({ ...row, n: held.length + 1 }),
    get: async (project: string, id: string) => of(project).find((row) => row.id === id),
    list: async (project: string, before: number, limit: number) =>
      of(project)
        .filter(({ n }) => n < before)
        .reverse()
        .slice(0, limit),
  };
  const blocks = new ErasureBlocks(() => clock.now());
  return erasureStore({ tables, blocks, queues: { all: () => [] }, projects, clock, wake() {} });
}
