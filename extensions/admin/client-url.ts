/** A client reaches a wildcard address by the name in the `Host` header that reached this listener. */
export function clientUrl(url: string, host = '127.0.0.1'): string {
  const parsed = /^(\w+:\/\/)(\[[^\]]*\]|[^/:]+)(:\d+)?$/.exec(url);
  const [, scheme, address = '', port = ''] = parsed ?? [];
  const isWildcard = address === '0.0.0.0' || address === '[::]';
  if (scheme === undefined || !isWildcard) return url;
  return `${scheme}${host.replace(/:\d+$/, '')}${port}`;
}
