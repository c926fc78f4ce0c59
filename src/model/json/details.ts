import type { JsonIndex } from '../batch-index.ts';
import type { Cost } from '../details.ts';
import { clipped, nanosOfUsd, sentCost, tagsOf } from '../details.ts';
import type { IgnoredValues } from '../ignored.ts';
import { decodeJson } from './decode.ts';
import { OPEN_BRACKET, QUOTE } from './grammar.ts';
import { narrowStringIn } from './narrow.ts';
import {
  elementsOf,
  findMembers,
  type Member,
  startOf,
  stringIn,
  typeAt,
  typeOfByte,
} from './read.ts';

/** Readers of the details of native events and runs. */

/** The members of an object in a field, by name; none for any other value. */
export function membersAt<Name extends string>(
  index: JsonIndex,
  position: number,
  slot: number,
  names: readonly Name[],
): Partial<Record<Name, Member>> {
  if (typeAt(index, position, slot) !== 'object') return {};
  return findMembers(index.bytes, startOf(index, position, slot), names);
}

/** A string within the length of a detail; undefined for any other value. */
export function detailText(bytes: Buffer, member: Member | undefined): string | undefined {
  if (member === undefined || bytes[member.start] !== QUOTE) return undefined;
  return clipped(narrowStringIn(bytes, member.start, member.end));
}

/** As `detailText`; a number reads as its digits, such as the version of a prompt. */
export function detailScalar(bytes: Buffer, member: Member | undefined): string | undefined {
  const number = member === undefined ? undefined : numberIn(bytes, member);
  return number === undefined ? detailText(bytes, member) : String(number);
}

/** The tags in an array of strings that starts at `start`. With `ignored`, any other value, also in the array, is noted. */
export function tagsIn(
  bytes: Buffer,
  start: number,
  ignored?: IgnoredValues,
): readonly string[] | undefined {
  if (bytes[start] !== OPEN_BRACKET) ignored?.add('tags', 'tags');
  return tagsOf(textsIn(bytes, start, ignored));
}

function* textsIn(
  bytes: Buffer,
  start: number,
  ignored: IgnoredValues | undefined,
): Generator<string, void> {
  let isNoted = false;
  for (const { start: at, end } of elementsOf(bytes, start)) {
    if (bytes[at] === QUOTE) yield stringIn(bytes, at, end);
    else if (!isNoted && typeOfByte(bytes[at]) !== 'null') {
      ignored?.add('tags', 'tags');
      isNoted = true;
    }
  }
}

/** Longer spellings of a number are not parsed. */
const LONGEST_NUMBER = 64;

/** A finite number; undefined for any other value. */
export function numberIn(bytes: Buffer, { start, end }: Member): number | undefined {
  if (end - start > LONGEST_NUMBER) return undefined;
  const value = decodeJson(bytes, start, end);
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** The cost in an object with these members, in USD. `note` is called for each malformed one. */
export function costIn(
  bytes: Buffer,
  found: { readonly [Part in 'input' | 'output' | 'total']: Member | undefined },
  note?: (part: 'input' | 'output' | 'total') => void,
): Cost | undefined {
  const nanos = (part: 'input' | 'output' | 'total') => {
    const member = found[part];
    if (member === undefined) return undefined;
    const amount = amountIn(bytes, member);
    if (amount === undefined && typeOfByte(bytes[member.start]) !== 'null') note?.(part);
    return amount;
  };
  return sentCost({ input: nanos('input'), output: nanos('output'), total: nanos('total') });
}

/** An amount in USD, as a number or as digits in a text, in 10⁻⁹ USD; undefined for any other value. */
function amountIn(bytes: Buffer, member: Member): number | undefined {
  const { start, end } = member;
  if (bytes[start] !== QUOTE) return nanosOfUsd(numberIn(bytes, member));
  return end - start > LONGEST_NUMBER ? undefined : nanosOfUsd(stringIn(bytes, start, end));
}
