import { capability } from './capability.ts';

/** The health of a component, read for every report. */
export type ComponentHealth = {
  /** False takes the process out of rotation, because it cannot accept requests. Default: true. */
  readonly ready?: boolean;
  /** False if work does not progress, e.g. a backlog without completions. Default: true. */
  readonly healthy?: boolean;
  /** One sentence for people, without payloads and secrets. */
  readonly message?: string;
  /** Facts for `?verbose`: the backlog and its age, free disk space, the durability in force. */
  readonly details?: Readonly<Record<string, string | number | boolean | null>>;
};

export type ServicePhase = 'starting' | 'running' | 'stopping' | 'stopped';

export type HealthReport = {
  /** The service runs and every component is ready. */
  readonly ready: boolean;
  /** `degraded` while a component of the running service is not healthy or not ready. */
  readonly status: ServicePhase | 'degraded';
  /** Milliseconds since the epoch. */
  readonly upSince: number;
  /** Milliseconds. */
  readonly uptime: number;
  /** Every registered component if verbose, else only those that are not healthy or not ready. */
  readonly components: readonly (ComponentHealth & { readonly id: string })[];
};

/** Read by health endpoints, the control socket and the UI. */
export type HealthSource = { report(verbose: boolean): HealthReport };
export const HEALTH = capability<HealthSource>('health');

/**
 * Components register here. `read` is called for every report and must be fast; an exception counts as unhealthy.
 * The returned function unregisters, and so does the shutdown of the component.
 */
export type HealthRegistry = {
  register(componentId: string, read: () => ComponentHealth): () => void;
};
export const HEALTH_REGISTRY = capability<HealthRegistry>('health_registry');

export type Health = HealthSource &
  HealthRegistry & { enter(phase: ServicePhase): void; readonly phase: ServicePhase };

/** The health of one service. */
export function createHealth(clock: { now(): number }): Health {
  const upSince = clock.now();
  const readers = new Map<symbol, { id: string; read: () => ComponentHealth }>();
  let phase: ServicePhase = 'starting';

  function read(): (ComponentHealth & { id: string })[] {
    return [...readers.values()].map(({ id, read }) => ({ id, ...ask(read) }));
  }

  return {
    get phase() {
      return phase;
    },
    enter(next) {
      phase = next;
    },
    register(id, read) {
      const key = Symbol(id);
      readers.set(key, { id, read });
      return () => void readers.delete(key);
    },
    report(verbose) {
      const all = read();
      const unwell = all.filter(({ ready, healthy }) => ready === false || healthy === false);
      return {
        ready: phase === 'running' && all.every(({ ready }) => ready !== false),
        status: phase === 'running' && unwell.length > 0 ? 'degraded' : phase,
        upSince,
        uptime: Math.max(0, clock.now() - upSince),
        components: verbose ? all : unwell,
      };
    },
  };
}

function ask(read: () => ComponentHealth): ComponentHealth {
  try {
    return read();
  } catch (error) {
    return { healthy: false, message: error instanceof Error ? error.message : String(error) };
  }
}
