/** Cleans up after a benchmark, in reverse order, as a test does. */
export class Owner {
  readonly #cleaning: (() => Promise<void> | void)[] = [];

  teardown(clean: () => Promise<void> | void): void {
    this.#cleaning.push(clean);
  }

  async end(): Promise<void> {
    for (const clean of this.#cleaning.splice(0).reverse()) await clean();
  }
}
