import type { Key } from '../api/types.ts';
import { isBlank } from './text-pieces.ts';

/** A key without a name that shows goes by the first characters of its token. */
export function keyName({ name, prefix }: Pick<Key, 'name' | 'prefix'>): string {
  return isBlank(name) ? `${prefix}…` : name;
}

/** The name of a key by its id; the id if the key is in no list, as those of deleted projects. */
export function nameOfKey(id: string, keys: readonly Key[] = []): string {
  const key = keys.find((each) => each.id === id);
  return key === undefined ? id : keyName(key);
}
