import { drawn } from './drawn.ts';

/** One step of a soak. All times are in milliseconds. */
export type Step = {
  /** Attacks that run side by side, and the number that chooses what they are aimed at. */
  readonly attacks: readonly { readonly name: string; readonly at: number }[];
  /** The attacks run for this time before the fault. */
  readonly lead: number;
  /** A process is frozen for a time, or killed and started again after it. */
  readonly fault: Fault | undefined;
  /** The attacks go on for this time after the fault. */
  readonly hold: number;
  /** Nothing happens for this time after the attacks. */
  readonly rest: number;
};

type Fault = {
  readonly kind: 'freeze' | 'kill';
  readonly victim: string;
  readonly ms: number;
};

const LONGEST_FREEZE_S = 30;
const LONGEST_DOWN_MS = 2_000;

/**
 * The steps of about so many seconds, the same ones for the same seed. A freeze lasts 1 to 30 s, and at most a quarter
 * of the time.
 */
export function planOf(
  seed: number,
  seconds: number,
  attacks: readonly string[],
  victims: readonly string[],
): Step[] {
  const draw = drawn(seed);
  const one = (names: readonly string[]): string => names[draw(names.length)] ?? '';
  const longestFreeze = Math.max(1, Math.min(LONGEST_FREEZE_S, Math.floor(seconds / 4)));
  const faultOf = (): Fault | undefined => {
    const kind = (['freeze', 'kill', undefined] as const)[draw(3)];
    if (kind === undefined) return undefined;
    const ms = kind === 'freeze' ? 1_000 * (1 + draw(longestFreeze)) : draw(LONGEST_DOWN_MS);
    return { kind, victim: one(victims), ms };
  };
  const steps: Step[] = [];
  for (let left = seconds * 1000; left > 0; ) {
    const names = new Set([one(attacks), one(attacks)]);
    const step = {
      attacks: [...names].map((name) => ({ name, at: draw(1_000) })),
      lead: 500 + draw(2_000),
      fault: faultOf(),
      hold: 1_000 + draw(4_000),
      rest: draw(3_000),
    };
    steps.push(step);
    left -= step.lead + (step.fault?.ms ?? 0) + step.hold + step.rest;
  }
  return steps;
}

export function describeStep({ attacks, fault, lead, hold }: Step): string {
  const names = attacks.map(({ name }) => name).join(' and ');
  const what =
    fault === undefined ? 'nothing else' : `${fault.victim}: ${fault.kind} for ${fault.ms} ms`;
  return `${names} for ${lead} ms; ${what}; ${hold} ms more`;
}
