import type { Clock } from '../component/component.ts';
import { Refusal } from '../model/errors.ts';

/** The least pace of a body: in each period it brings at least `bytesPerSecond` for each second of the period. */
export type BodyRate = {
  readonly bytesPerSecond: number;
  /** Milliseconds; the first period begins when the body is read. */
  readonly period: number;
};

export type BodyPace = {
  arrived(bytes: number): void;
  /** The service does not read the body: the time does not count until `resume`, which begins a new period. */
  pause(): void;
  resume(): void;
  stop(): void;
};

/** `onSlow` is called at most once, with the refusal (408). */
export function bodyPace(
  { bytesPerSecond, period }: BodyRate,
  clock: Clock,
  onSlow: (refusal: Refusal) => void,
): BodyPace {
  const least = (bytesPerSecond * period) / 1000;
  let arrived = 0;
  let cancel = begin();

  function begin(): () => void {
    if (least === 0) return () => {};
    arrived = 0;
    return clock.after(period, () => {
      if (arrived < least) onSlow(tooSlow(bytesPerSecond));
      else cancel = begin();
    });
  }

  return {
    arrived(bytes) {
      arrived += bytes;
    },
    pause: () => cancel(),
    resume() {
      cancel = begin();
    },
    stop: () => cancel(),
  };
}

function tooSlow(bytesPerSecond: number): Refusal {
  const message = `The body arrives more slowly than ${bytesPerSecond} bytes per second.`;
  return new Refusal('request_timeout', message);
}
