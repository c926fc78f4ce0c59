import t from 'tap';
import { tenancyContract } from '../../contract/tenancy.ts';
import { sqlitePlace } from '../../helper/places.ts';

tenancyContract(t, async (t) => sqlitePlace(t));
