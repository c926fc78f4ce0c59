import type { Clock } from '../../src/component/component.ts';
import type { BullmqReceiverConfig } from './config.ts';

/** How one exporter fares: when all that is under way fails, it rests. */
export class Backoff {
  readonly #config: BullmqReceiverConfig;
  readonly #clock: Clock;
  /** Since the last success. */
  #failures = 0;
  #restUntil = 0;

  constructor(config: BullmqReceiverConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  /** Milliseconds; 0 where it does not rest. */
  restMs(): number {
    return Math.max(0, this.#restUntil - this.#clock.now());
  }

  succeeded(): void {
    this.#failures = 0;
    this.#restUntil = 0;
  }

  failed(): void {
    this.#failures++;
    const beyond = this.#failures - this.#config.concurrency;
    if (beyond >= 0) this.#restUntil = this.#clock.now() + this.delay(beyond);
  }

  /** Half of it is fixed and half random, so that what failed together is not tried together. */
  delay(step: number): number {
    const { initial_interval, max_interval } = this.#config;
    const full = Math.min(max_interval, initial_interval * 2 ** Math.min(step, 30));
    return Math.round(full / 2 + (full / 2) * Math.random());
  }
}
