import type { AttachmentStore } from '../../src/store/attachments.ts';

/** The hash of the attachment that every project has. */
export const ATTACHMENT = 'ab'.repeat(32);

export function fakeAttachments(): AttachmentStore {
  return {
    async put() {},
    async release() {},
    async find(_projectId, sha256) {
      if (sha256.toString('hex') !== ATTACHMENT) return undefined;
      return { bytes: 4, contentType: 'text/plain' };
    },
    read: async () => Buffer.from('text'),
  };
}
