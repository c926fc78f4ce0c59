import t from 'tap';
import { textSearch } from '../../contract/text-search.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

t.setTimeout(300_000);
const server = await postgresDatabases(t);

textSearch(t, (t) => postgresPlace(t, server));
