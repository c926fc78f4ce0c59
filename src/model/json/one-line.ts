/** JSON without line ends, in the spelling of the client otherwise. In JSON, line ends are only allowed as white space between tokens. */
export function onOneLine(json: string): string {
  if (!json.includes('\n') && !json.includes('\r')) return json;
  return json.replaceAll(/[\r\n]\s*/g, '');
}
