import { capability } from './capability.ts';

/** What a component says of itself when somebody asks. */
export type ComponentHealth = {
  /** False takes the process out of rotation: it cannot accept what is sent to it. Default true. */
  readonly ready?: boolean;
  /** False where work does not progress, e.g. a backlog without completions. Default true. */
  readonly healthy?: boolean;
  /** One sentence for people; no payload, no secret. */
  readonly message?: string;
  /** Facts for `?verbose`: backlog, its age, headroom on disk, the promise in force. */
  readonly details?: Readonly<Record<string, string | number | boolean | null>>;
};

export type ServicePhase = 'starting' | 'running' | 'stopping' | 'stopped';

export type HealthReport = {
  /** The service runs and no component says that it cannot accept. */
  readonly ready: boolean;
  /** `degraded` while something running is not healthy or not ready. */
  readonly status: ServicePhase | 'degraded';
  /** Milliseconds since the epoch. */
  readonly upSince: number;
  /** Milliseconds. */
  readonly uptime: number;
  /** Every registered component when verbose, else those that are not well. */
  readonly components: readonly (ComponentHealth & { readonly id: string })[];
};

/** Asked by health endpoints, the control socket and the UI. */
export type HealthSource = { report(verbose: boolean): HealthReport };
export const HEALTH = capability<HealthSource>('health');

/**
 * Where a component says how it is. `read` is called at every report: it must be quick, and what it
 * throws is shown as unhealthy. The returned function takes it back; shutting down does too.
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
