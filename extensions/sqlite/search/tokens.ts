import type { Token, TokenBranch } from '../../../src/store/search/tokens.ts';

/** A token as the index has it. */
export function textOfToken(token: Token): string {
  return token.toString(36);
}

/** The full-text query of rows that have all tokens of a branch. */
export function matchOf(branches: readonly TokenBranch[]): string {
  return branches
    .map((branch) => `(${branch.map((token) => `"${textOfToken(token)}"`).join(' AND ')})`)
    .join(' OR ');
}
