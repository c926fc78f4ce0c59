import { Background, type BackgroundOptions } from '../../../src/component/background.ts';

/** Background work in rounds, with a rest before each. */
export type Rounds = {
  /** Call when there may be work. The next round begins after the rest. */
  wake(): void;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/** `restMs` returns the rest in milliseconds. The first round begins at once. */
export function backgroundRounds(options: BackgroundOptions, restMs: () => number): Rounds {
  const background = new Background(options);
  let cancelRound: (() => void) | undefined;
  background.wake();

  function stop(): void {
    cancelRound?.();
    background.stop();
  }

  return {
    wake() {
      cancelRound ??= options.clock.after(restMs(), () => {
        cancelRound = undefined;
        background.wake();
      });
    },
    finish: () => background.finish(),
    async close() {
      stop();
      await background.close();
    },
    crash: stop,
  };
}
