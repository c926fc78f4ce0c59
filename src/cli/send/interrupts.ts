import type { Terminal } from '../terminal.ts';
import type { Stop } from './stop.ts';

/** npm passes Ctrl-C on while the terminal sends it too: within this time it is one signal. */
const SAME_SIGNAL_MS = 1_000;

/** The first Ctrl-C lets requests under way finish, a second breaks them off. Gives what ends the watch. */
export function watchInterrupts(
  terminal: Terminal,
  stop: Stop,
  say: (message: string) => void,
  breakOff: () => void,
): () => void {
  let stoppedAt: number | undefined;
  const onSignal = (): void => {
    const now = Date.now();
    if (stoppedAt === undefined) {
      stoppedAt = now;
      stop.begin('interrupted', 'interrupted');
      say('Stopping: requests under way may finish; once more breaks them off.');
    } else if (now - stoppedAt > SAME_SIGNAL_MS) {
      breakOff();
    }
  };
  return terminal.onInterrupt?.(onSignal) ?? (() => {});
}
