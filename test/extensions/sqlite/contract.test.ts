import t from 'tap';
import { storeContract } from '../../contract/store.ts';
import { sqlitePlace } from '../../helper/places.ts';

storeContract(t, async (t) => sqlitePlace(t));
