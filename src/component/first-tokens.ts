import { capability } from './capability.ts';

/** Keeps the token of a first key from before the key is stored until a user has seen it: a process may be killed at any time in between. */
export type FirstTokens = {
  /** Resolves when the token is on the disk, or cannot be kept: that prevents no store. */
  keep(token: string): Promise<void>;
  /** Those of all starts. Their stores may be others, or none. Never rejects. */
  kept(): Promise<readonly string[]>;
  /** Never rejects. */
  forget(token: string): Promise<void>;
};

/** Offered by the service; without a daemon around the service, no token is kept. */
export const FIRST_TOKENS = capability<FirstTokens>('first_tokens');

export const NO_TOKENS: FirstTokens = {
  async keep() {},
  kept: async () => [],
  async forget() {},
};
