import { clientNetwork } from '../net/network.ts';

export type StreamBounds = {
  /** Streams of all connections. */
  readonly max: number;
  /** Streams of one network: an IPv4 address or an IPv6 /64. */
  readonly maxPerAddress: number;
  /** Whether many clients connect from this address, such as that of a proxy: it has no bound of its own. */
  readonly isShared: (address: string) => boolean;
};

/** Bounds the open streams of a server. */
export type StreamPlaces = {
  /** Gives the stream of this peer a place, which the returned function frees; undefined at a bound. */
  enter(address: string): (() => void) | undefined;
};

export function streamPlaces({ max, maxPerAddress, isShared }: StreamBounds): StreamPlaces {
  const open = new Map<string, number>();
  let total = 0;
  return {
    enter(address) {
      const network = clientNetwork(address);
      const ofNetwork = open.get(network) ?? 0;
      if (total >= max || (ofNetwork >= maxPerAddress && !isShared(address))) return undefined;
      total++;
      open.set(network, ofNetwork + 1);
      return () => {
        total--;
        const left = (open.get(network) ?? 1) - 1;
        if (left === 0) open.delete(network);
        else open.set(network, left);
      };
    },
  };
}
