import t from 'tap';
import { tenancyContract } from '../../contract/tenancy.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresServer } from '../../helper/postgres-server.ts';

const server = await postgresServer(t);

tenancyContract(t, (t) => postgresPlace(t, server));
