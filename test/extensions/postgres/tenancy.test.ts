import t from 'tap';
import { tenancyContract } from '../../contract/tenancy.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

const server = await postgresDatabases(t);

tenancyContract(t, () => postgresPlace(server));
