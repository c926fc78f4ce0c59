/** A command that sends the same request as the page. The token is read from a variable: it belongs in no history. */
export function curlOf(url: string): string {
  return `curl -s ${quoted(url)} -H "Authorization: Bearer $TRACECTL_ADMIN_TOKEN"`;
}

/** A word of the shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
