/** A text that is searched or, below a secret name, replaced as a whole. */
export type ListedText = {
  readonly start: number;
  readonly end: number;
  /** It is spelled as in JSON and has a backslash. */
  readonly isEscaped: boolean;
  /** Group of the secret name around it; undefined if there is none. */
  readonly group: number | undefined;
};

/** Texts that were visited, in three numbers each: an item may have millions. */
export class TextList {
  #numbers = new Uint32Array(96);
  #length = 0;

  add(start: number, end: number, isEscaped: boolean, group: number | undefined): void {
    if (this.#length === this.#numbers.length) {
      const larger = new Uint32Array(this.#length * 2);
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.#length++] = start;
    this.#numbers[this.#length++] = end;
    this.#numbers[this.#length++] =
      (group === undefined ? 0 : 2 * (group + 1)) + (isEscaped ? 1 : 0);
  }

  *[Symbol.iterator](): Generator<ListedText> {
    for (let i = 0; i < this.#length; i += 3) {
      const flags = this.#numbers[i + 2] ?? 0;
      yield {
        start: this.#numbers[i] ?? 0,
        end: this.#numbers[i + 1] ?? 0,
        isEscaped: flags % 2 === 1,
        group: flags < 2 ? undefined : (flags >> 1) - 1,
      };
    }
  }
}
