import { progressOf } from '../store/search/status.ts';
import { answerJson } from './answer.ts';
import type { StoredRequest } from './stored-request.ts';

/** How far the text search of a client covers payloads. The counts, which are of all projects, are for commands. */
export const SEARCH_STATUS: StoredRequest = {
  path: '/search',
  parameters: [],
  async work({ exchange, read, store }) {
    const status = await read.turn(() => store.search.status());
    const answer = {
      state: status.state,
      payload_bytes: status.payloadBytes,
      progress: progressOf(status),
    };
    answerJson(exchange, read, JSON.stringify(answer));
  },
};
