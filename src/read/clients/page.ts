/** The most items of a page for a client of another service. */
const MAX_PAGE = 100;

/** The part of a list that `limit` and `offset` ask for. */
export function pageOfClient(query: URLSearchParams): { offset: number; limit: number } {
  const asked = numberIn(query.get('limit'));
  const limit = asked === undefined ? MAX_PAGE : Math.max(1, Math.min(asked, MAX_PAGE));
  return { offset: numberIn(query.get('offset')) ?? 0, limit };
}

function numberIn(text: string | null): number | undefined {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
