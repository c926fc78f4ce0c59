/** Does the work again while it fails with an error behind which the next attempt may succeed. Rejects with the last error. */
export async function repeated<T>(
  attempts: number,
  mayPass: (error: unknown) => boolean,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === attempts || !mayPass(error)) throw error;
    }
  }
}
