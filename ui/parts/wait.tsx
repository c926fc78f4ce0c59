import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ApiFailure } from '../api/client.ts';
import { timeLeft } from './format.ts';

type Props = {
  readonly failure: ApiFailure;
  /** Milliseconds after the failure when the page tries again on its own; undefined if it does not. */
  readonly again?: number | undefined;
};

const TICK_MS = 1_000;

/**
 * The time until a page tries again, or until a person should. It counts down: a screen reader reads it with the failure, and not each
 * change of it, which is what the role says.
 */
export function Wait({ failure, again }: Props): JSX.Element | null {
  const wait = again ?? failure.waitOf(0);
  const left = failure.notedAt + wait - performance.now();
  const isOver = left <= 0;
  const [, setTicks] = useState(0);
  useEffect(() => {
    if (isOver) return undefined;
    const timer = setInterval(() => setTicks((before) => before + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isOver]);
  if (wait === 0) return null;
  return (
    <p class="muted" role="timer">
      {again === undefined ? asked(left) : announced(left)}
    </p>
  );
}

function asked(left: number): string {
  return left > 0 ? `Wait ${timeLeft(left)} before you try again.` : 'You may try again.';
}

function announced(left: number): string {
  return left > 0 ? `The page tries again in ${timeLeft(left)}.` : 'The page tries again.';
}
