import type { Steps } from '../../component/background.ts';
import type { Clock } from '../../component/component.ts';

/** How often other work looks for erasures. */
const LOOK_MS = 1000;

/**
 * Other work that must not run beside an erasure. Erasures do not wait for its end, which can be minutes away: they are carried out between
 * two of its steps.
 */
export async function* afterErasures(clock: Clock, erase: () => Steps, other: Steps): Steps {
  yield* erase();
  let lookedAt = clock.uptime();
  for await (const _ of other) {
    yield;
    if (clock.uptime() - lookedAt < LOOK_MS) continue;
    yield* erase();
    lookedAt = clock.uptime();
  }
}
