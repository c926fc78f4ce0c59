import type { ExpectedTrace } from './compare.ts';

/** A program of a page, and the traces that it stores. */
export type ClientCase = {
  /** As the matrix names it. */
  readonly client: string;
  /** `docs/clients/PAGE.md`. */
  readonly page: string;
  /** The name of the program in the page: `<!-- SECTION: program -->`. */
  readonly section: string;
  /** The name of the settings in the page, if it differs. */
  readonly settings?: string;
  readonly language: 'javascript' | 'python';
  /** The packages whose versions the matrix shows. */
  readonly packages: readonly string[];
  readonly protocol: string;
  /** The calls of the program to the model server. */
  readonly calls: readonly ('chat' | 'stream' | 'tools' | 'embeddings' | 'error')[];
  readonly traces: readonly ExpectedTrace[];
};
