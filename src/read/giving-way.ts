import type { Exchange } from '../http/exchange.ts';

/** A client that takes nothing of its answer for this time is cut. Milliseconds. */
export const END_MS = 5_000;

/** A long answer that has to end early if a project within its share wants its place. */
export type GivingWay = {
  /** It has to end as soon as it can. */
  readonly isAsked: boolean;
  ask(): void;
  /** The answer has ended. */
  end(): void;
};

/** `wake` ends a wait of the answer. */
export function givingWay({ clock, response }: Exchange, wake = (): void => {}): GivingWay {
  let isAsked = false;
  let cancel = (): void => {};

  /** An answer that was asked waits for its client at most once more, so two looks at a wait are at the same one. */
  function look(wasFull: boolean): void {
    const isFull = response.writableNeedDrain;
    if (wasFull && isFull) response.destroy();
    else cancel = clock.after(END_MS, () => look(isFull));
  }

  return {
    get isAsked() {
      return isAsked;
    },
    ask() {
      isAsked = true;
      look(false);
      wake();
    },
    end: () => cancel(),
  };
}
