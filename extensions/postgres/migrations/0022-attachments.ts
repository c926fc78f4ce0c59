/** Attachments of observations, each content once for a project (src/store/attachments.ts). */
export const attachmentContents = {
  name: '0022-attachments',
  sql: `
    CREATE TABLE attachments (
      project text COLLATE "C" NOT NULL,
      sha256 bytea NOT NULL,
      bytes bigint NOT NULL,
      content_type text COLLATE "C" NOT NULL,
      PRIMARY KEY (project, sha256)
    );
    CREATE TABLE attachment_pieces (
      project text COLLATE "C" NOT NULL,
      sha256 bytea NOT NULL,
      piece integer NOT NULL,
      bytes bytea NOT NULL,
      PRIMARY KEY (project, sha256, piece)
    );
    -- Images, audio and documents are compressed already.
    ALTER TABLE attachment_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL;
    -- The batches whose observations are not written yet.
    CREATE TABLE attachment_holds (
      batch text COLLATE "C" NOT NULL,
      project text COLLATE "C" NOT NULL,
      sha256 bytea NOT NULL,
      PRIMARY KEY (batch, sha256)
    );
    CREATE INDEX attachment_holds_by_content ON attachment_holds (project, sha256);
    -- The keys of the observations that refer to a content.
    CREATE TABLE attachment_refs (
      project text COLLATE "C" NOT NULL,
      sha256 bytea NOT NULL,
      key bytea NOT NULL,
      PRIMARY KEY (project, sha256, key)
    );
  `,
};
