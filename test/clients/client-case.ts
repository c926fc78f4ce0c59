import type { ExpectedTrace } from './compare.ts';

type NpmList = 'npm' | 'agents' | 'traceloop-js';

/** A program of a page, and the traces that it stores. */
export type ClientCase = {
  /** As the matrix names it. */
  readonly client: string;
  /** `docs/clients/PAGE.md`. */
  readonly page: string;
  /** The page with the settings and the program, if it is another one. */
  readonly programPage?: string;
  /** The name of the program in the page: `<!-- SECTION: program -->`. */
  readonly section: string;
  /** The variant of the settings and the program: `<!-- settings, VARIANT -->`. */
  readonly variant?: string;
  /** A text of the program that the variant replaces, and its replacement. */
  readonly edit?: readonly [string, string];
  /** A shell script that runs before the settings, and is no part of the page. */
  readonly prelude?: string;
  /** The list of packages: `LIST/package.json`, or `python/LIST.txt`. */
  readonly list: NpmList | 'main' | 'anthropic' | 'litellm' | 'mlflow' | 'traceloop';
  /** The packages whose versions the matrix shows. */
  readonly packages: readonly string[];
  readonly protocol: string;
  /** The calls of the program to the model server. */
  readonly calls: readonly ('chat' | 'stream' | 'tools' | 'embeddings' | 'error')[];
  /** Lines that the client always prints. */
  readonly prints?: RegExp;
  /** The receivers that accept items of the program, if it sends over several. */
  readonly receivers?: readonly ('runs' | 'otlp')[];
  readonly traces: readonly ExpectedTrace[];
};
