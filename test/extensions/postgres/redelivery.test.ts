import t from 'tap';
import { redelivery } from '../../contract/redelivery.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

t.setTimeout(600_000);
const server = await postgresDatabases(t);

redelivery(t, () => postgresPlace(server));
