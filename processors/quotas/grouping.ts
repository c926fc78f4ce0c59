/** A call that waits for its group. */
type Waiting<Call, Result> = {
  readonly call: Call;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * Carries out calls of one name together: those of one event-loop turn, and those that arrive while a group of the name is in
 * flight. A call that comes alone waits for no other. A group that rejects also fails the calls that wait behind it, because
 * they have waited as long.
 */
export function callsByName<Call, Result>(
  most: number,
  carryOut: (name: string, calls: readonly Call[]) => Promise<readonly Result[]>,
): (name: string, call: Call) => Promise<Result> {
  /** The calls behind the group in flight, for each name that has one. */
  const behind = new Map<string, Waiting<Call, Result>[]>();

  async function run(name: string, waiting: Waiting<Call, Result>[]): Promise<void> {
    // Later, so that the other calls of this turn of the event loop join.
    await new Promise(setImmediate);
    while (waiting.length > 0) {
      const group = waiting.splice(0, most);
      try {
        const results = await carryOut(
          name,
          group.map(({ call }) => call),
        );
        for (const [i, { resolve, reject }] of group.entries()) {
          const result = results[i];
          if (result === undefined) reject(new Error('a call of a group has no result'));
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of [...group, ...waiting.splice(0)]) reject(error);
      }
    }
    behind.delete(name);
  }

  return (name, call) =>
    new Promise((resolve, reject) => {
      const one = { call, resolve, reject };
      const waiting = behind.get(name);
      if (waiting !== undefined) {
        waiting.push(one);
        return;
      }
      const first = [one];
      behind.set(name, first);
      void run(name, first);
    });
}
