/** The time of an option, in which a date is its start in UTC. Other texts are passed on: the daemon checks them. */
export function timeArgument(text: string): string {
  return /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
}
