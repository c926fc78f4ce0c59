import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { apiPath, at } from '../../api/client.ts';
import type { Observation } from '../../api/types.ts';
import { DownloadLink } from '../../parts/download-link.tsx';
import { bytes } from '../../parts/format.ts';
import { beginning, visible } from '../../parts/text-pieces.ts';

type Attachment = Observation['attachments'][number];
type Props = { readonly projectId: string; readonly data: Observation };

/** The files that were sent with the observation: each is a download, and an image shows when a person asks for it. */
export function Attachments({ projectId, data: { attachments } }: Props): JSX.Element | null {
  if (attachments.length === 0) return null;
  return (
    <section class="attachments">
      <h3>Attachments</h3>
      <ul>
        {attachments.map((each) => (
          <li key={each.name}>
            <File
              file={each}
              url={apiPath(at`/projects/${projectId}/attachments/${each.sha256}`)}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The types of images that the server sends under their own name. */
const SHOWN = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

function File({ file, url }: { readonly file: Attachment; readonly url: string }): JSX.Element {
  const [isShown, setShown] = useState(false);
  const [isBroken, setBroken] = useState(false);
  const { name, mime_type, bytes: size } = file;
  return (
    <>
      <DownloadLink class="user-text" href={url} name={name}>
        {visible(beginning(name, 120))}
      </DownloadLink>{' '}
      <span class="muted">
        {mime_type}, {bytes(size)}
      </span>{' '}
      {SHOWN.has(mime_type) && !isShown && (
        <button type="button" onClick={() => setShown(true)}>
          Show image
        </button>
      )}
      {isShown && !isBroken && (
        <img class="message-image" src={url} alt={name} onError={() => setBroken(true)} />
      )}
      {isBroken && <p class="muted">The browser cannot read this image.</p>}
    </>
  );
}
