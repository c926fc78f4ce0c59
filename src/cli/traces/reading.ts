import type { ProjectRead } from '../../control/traces.ts';
import { carryOut, given, type StoreOptions } from '../store-command.ts';
import type { Terminal } from '../terminal.ts';

export type ReadOptions = StoreOptions & { readonly project?: string };

/** Reading requests of one command, until Ctrl-C. */
export type CommandReading = {
  /** Undefined after Ctrl-C. */
  get(path: string, query: Readonly<Record<string, string | undefined>>): Promise<unknown>;
  readonly isInterrupted: boolean;
  close(): void;
};

const INTERRUPTED = Symbol('interrupted');

export function openReading(options: ReadOptions, terminal: Terminal): CommandReading {
  const stop = Promise.withResolvers<typeof INTERRUPTED>();
  let isInterrupted = false;
  const close = terminal.onInterrupt?.(() => {
    isInterrupted = true;
    stop.resolve(INTERRUPTED);
  });
  let { project } = options;
  return {
    async get(path, query) {
      const parameters = new URLSearchParams(given(query) as Record<string, string>);
      const target = parameters.size === 0 ? path : `${path}?${parameters}`;
      const args = given({ project, target });
      const read = carryOut('traces.read', args, options, terminal);
      const result = await Promise.race([read, stop.promise]);
      if (result === INTERRUPTED) return undefined;
      const { project: id, answer } = result as ProjectRead;
      // Further requests name the project by its id.
      project = id;
      return answer;
    },
    get isInterrupted() {
      return isInterrupted;
    },
    close: () => close?.(),
  };
}
