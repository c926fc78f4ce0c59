import t from 'tap';
import { storeContract } from '../../contract/store.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresServer } from '../../helper/postgres-server.ts';

t.setTimeout(300_000);
const server = await postgresServer(t);

storeContract(t, (t) => postgresPlace(t, server));
