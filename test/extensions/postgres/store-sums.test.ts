import t from 'tap';
import { storeContract } from '../../contract/store.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

t.setTimeout(600_000);
const server = await postgresDatabases(t);

storeContract(t, 'sums', () => postgresPlace(server));
