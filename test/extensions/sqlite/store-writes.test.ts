import t from 'tap';
import { storeContract } from '../../contract/store.ts';
import { sqlitePlace } from '../../helper/places.ts';

t.setTimeout(300_000);

storeContract(t, 'writes', async (t) => sqlitePlace(t));
