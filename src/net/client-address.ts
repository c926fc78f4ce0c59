import { BlockList, isIP } from 'node:net';
import { plainAddress } from './network.ts';

type Headers = ReadonlyMap<string, readonly string[]>;

/**
 * Returns a function that names the client of a request. Headers of a peer outside `trusted` (CIDR blocks) are ignored.
 * From a trusted peer the list of `X-Forwarded-For` or `Forwarded` is read from its end, which the nearest proxy wrote: the
 * first address outside `trusted` is the client. If that part is malformed, or both headers are present and disagree, the
 * peer is the client: a proxy that writes one header passes on whatever a client puts into the other.
 */
export function clientAddresses(
  trusted: readonly string[],
): (peer: string, headers: Headers) => string {
  if (trusted.length === 0) return (peer) => peer;
  const isTrusted = trustedPeers(trusted);

  function lastUntrusted(elements: readonly (string | undefined)[]): string | undefined {
    for (let i = elements.length - 1; i >= 0; i--) {
      const address = elements[i];
      if (address === undefined || i === 0 || !isTrusted(address)) return address;
    }
    return undefined;
  }

  return (peer, headers) => {
    if (!isTrusted(peer)) return peer;
    const lists = [
      listOf(headers.get('x-forwarded-for'), elementsOfList),
      listOf(headers.get('forwarded'), elementsOfForwarded),
    ].filter((list) => list !== undefined);
    const [first, second = first] = lists.map(lastUntrusted);
    return first !== undefined && first === second ? first : peer;
  };
}

/** Whether an address is in one of the CIDR blocks. */
export function trustedPeers(blocks: readonly string[]): (address: string) => boolean {
  const proxies = blockList(blocks);
  return (address) => {
    const plain = plainAddress(address);
    const family = isIP(plain);
    return family !== 0 && proxies.check(plain, family === 6 ? 'ipv6' : 'ipv4');
  };
}

function blockList(blocks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const block of blocks) {
    const [address = '', bits] = block.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    list.addSubnet(
      address,
      bits === undefined ? (family === 'ipv6' ? 128 : 32) : Number(bits),
      family,
    );
  }
  return list;
}

function listOf(
  values: readonly string[] | undefined,
  parse: (text: string) => (string | undefined)[],
): (string | undefined)[] | undefined {
  return values === undefined ? undefined : parse(values.join(','));
}

function elementsOfList(text: string): (string | undefined)[] {
  return text.split(',').map((element) => nodeAddress(element.trim()));
}

/** RFC 7239: `for=192.0.2.60;proto=http, for="[2001:db8::17]:4711"`. Undefined means a malformed element. */
function elementsOfForwarded(text: string): (string | undefined)[] {
  const elements = partsBetween(text, ',').filter((element) => element !== '');
  return elements.map((element) => {
    const nodes = partsBetween(element, ';').flatMap((pair) => FOR.exec(pair)?.[1] ?? []);
    const [node = ''] = nodes;
    return nodes.length === 1 ? nodeAddress(node.replace(/^"(.*)"$/, '$1')) : undefined;
  });
}

const FOR = /^\s*for=("(?:[^"\\]|\\.)*"|[^\s"]*)\s*$/i;

/**
 * The parts between separators outside of quotes. The quote of a text that does not end is a character like others. In linear time: if one
 * text does not end, none behind it does, because all quotes behind it are escaped.
 */
function partsBetween(text: string, separator: ',' | ';'): string[] {
  const parts: string[] = [];
  let start = 0;
  let hasQuotes = true;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === separator) {
      parts.push(text.slice(start, at));
      start = at + 1;
    } else if (text[at] === '"' && hasQuotes) {
      const end = endOfQuoted(text, at);
      hasQuotes = end !== undefined;
      at = end ?? at;
    }
  }
  return [...parts, text.slice(start)];
}

/** The position of the quote that ends the text which begins at `start`. */
function endOfQuoted(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === '\\') at++;
  }
  return undefined;
}

/** The address of `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`. */
function nodeAddress(node: string): string | undefined {
  const bracketed = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/i.exec(node)?.[1];
  const withPort = /^(\d+\.\d+\.\d+\.\d+):\d{1,5}$/.exec(node)?.[1];
  const address = plainAddress(bracketed ?? withPort ?? node);
  return isIP(address) === 0 ? undefined : address.toLowerCase();
}
