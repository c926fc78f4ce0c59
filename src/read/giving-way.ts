import type { Exchange } from '../http/exchange.ts';

/** A client that does not take the rest of its answer within this time is cut. Milliseconds. */
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
  return {
    get isAsked() {
      return isAsked;
    },
    ask() {
      isAsked = true;
      cancel = clock.after(END_MS, () => response.destroy());
      wake();
    },
    end: () => cancel(),
  };
}
