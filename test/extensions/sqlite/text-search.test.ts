import t from 'tap';
import { textSearch } from '../../contract/text-search.ts';
import { sqlitePlace } from '../../helper/places.ts';

t.setTimeout(300_000);

textSearch(t, async (t) => sqlitePlace(t));
