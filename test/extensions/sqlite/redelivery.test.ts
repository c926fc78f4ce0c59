import t from 'tap';
import { redelivery } from '../../contract/redelivery.ts';
import { sqlitePlace } from '../../helper/places.ts';

redelivery(t, async (t) => sqlitePlace(t));
