/** What was sent stays as it was sent. In JSON, line ends only stand where white space may. */
export function onOneLine(json: string): string {
  return /[\r\n]/.test(json) ? json.replaceAll(/[\r\n]\s*/g, '') : json;
}
