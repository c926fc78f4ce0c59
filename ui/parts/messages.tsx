import type { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import type { Message } from './conversation.ts';
import { bytes } from './format.ts';
import { Icon } from './icon.tsx';
import { Json } from './json.tsx';
import { LongText } from './long-text.tsx';
import type { Image, MessagePart, ToolCall } from './message-parts.ts';
import { isRecord, jsonOf, safeImage } from './message-parts.ts';
import './messages.css';
import { beginning } from './text-pieces.ts';

/** Messages at the end that show before a person asks for all of them. */
const SHOWN = 60;

/** A conversation with a model: who said what, with tool calls and their results. */
export function Messages({ messages }: { readonly messages: readonly Message[] }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const hidden = isWhole ? 0 : Math.max(messages.length - SHOWN, 0);
  return (
    <ol class="messages">
      {hidden > 0 && (
        <li class="messages-hidden">
          <button type="button" class="quiet" onClick={() => setWhole(true)}>
            Show {hidden} earlier messages
          </button>
        </li>
      )}
      {messages.slice(hidden).map((message, index) => (
        <OneMessage key={hidden + index} message={message} />
      ))}
    </ol>
  );
}

const KNOWN_ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool']);

function OneMessage({ message }: { readonly message: Message }): JSX.Element {
  const { role, name, parts, isOutput, finish } = message;
  const look = KNOWN_ROLES.has(role) ? role : 'other';
  return (
    <li class={`message role-${look} ${isOutput ? 'is-output' : ''}`}>
      <div class="message-head">
        <span class="message-role user-text">{beginning(role, 60)}</span>
        {name !== undefined && <span class="muted user-text">{beginning(name, 120)}</span>}
        {isOutput && <span class="badge">output</span>}
        {finish !== undefined && (
          <span class="muted message-finish user-text">{beginning(finish, 60)}</span>
        )}
      </div>
      <Parts parts={parts} />
      {parts.length === 0 && <p class="muted">No content</p>}
    </li>
  );
}

function Parts({ parts }: { readonly parts: readonly MessagePart[] }): JSX.Element {
  return (
    <>
      {parts.map((part, index) => (
        <Part key={index} part={part} />
      ))}
    </>
  );
}

function Part({ part }: { readonly part: MessagePart }): JSX.Element {
  switch (part.type) {
    case 'text':
      return <LongText text={part.text} />;
    case 'reasoning':
      return (
        <details class="message-part">
          <summary>Reasoning</summary>
          <LongText text={part.text} />
        </details>
      );
    case 'image':
      return <ImagePart image={part} />;
    case 'tool_call':
      return <CallPart call={part} />;
    case 'tool_result':
      return (
        <div class="message-part tool-result">
          <div class="part-head">
            <Icon name="right" /> Result{' '}
            <code class="user-text">{beginning(part.name ?? part.id ?? '', 120)}</code>
          </div>
          <Results parts={part.parts} />
        </div>
      );
    case 'data':
      return (
        <div class="message-part">
          <div class="part-head user-text">{beginning(part.label, 60)}</div>
          <Value value={part.value} label={part.label} />
        </div>
      );
  }
}

/** The answer of a tool. Most tools send JSON as a text, which is hard to read in one line. */
function Results({ parts }: { readonly parts: readonly MessagePart[] }): JSX.Element {
  const values = useMemo(
    () => parts.map((part) => (part.type === 'text' ? jsonOf(part.text) : undefined)),
    [parts],
  );
  return (
    <>
      {parts.map((part, index) =>
        values[index] === undefined ? (
          <Part key={index} part={part} />
        ) : (
          <Value key={index} value={values[index]} label="Result" />
        ),
      )}
    </>
  );
}

function CallPart({ call }: { readonly call: ToolCall }): JSX.Element {
  const { name, id, input, result } = call;
  return (
    <div class="message-part tool-call">
      <div class="part-head">
        <Icon name="tool" /> <strong class="user-text">{beginning(name, 200)}</strong>
        {id !== undefined && <code class="muted cut">{beginning(id, 120)}</code>}
      </div>
      <Value value={input} label={`Arguments of ${beginning(name, 60)}`} />
      {result !== undefined && (
        <div class="tool-result">
          <div class="part-head">
            <Icon name="right" /> Result
          </div>
          <Results parts={result} />
        </div>
      )}
    </div>
  );
}

/** A text as a text, a small flat object as lines, anything else as JSON. */
export function Value({
  value,
  label,
}: {
  readonly value: unknown;
  readonly label: string;
}): JSX.Element {
  if (value === undefined || value === null) return <span class="muted">Nothing</span>;
  if (typeof value === 'string') return <LongText text={value} />;
  if (typeof value !== 'object') return <span class="mono">{String(value)}</span>;
  const flat = flatEntries(value);
  if (flat === undefined) return <Json value={value} label={label} />;
  return (
    <dl class="flat">
      {flat.map(([key, each]) => (
        <div key={key}>
          <dt class="user-text">{key}</dt>
          <dd>
            <LongText text={each} first={600} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const FLAT_MEMBERS = 8;
const FLAT_KEY = 60;

function flatEntries(value: object): [string, string][] | undefined {
  const entries = Object.entries(value);
  if (!isRecord(value) || entries.length === 0 || entries.length > FLAT_MEMBERS) return undefined;
  if (entries.some(([key, each]) => key.length > FLAT_KEY || typeof each === 'object')) {
    return undefined;
  }
  return entries.map(([key, each]) => [key, String(each)]);
}

/** An image shows when a person asks for it, and only if the message itself holds it. */
function ImagePart({ image }: { readonly image: Image }): JSX.Element {
  const [isShown, setShown] = useState(false);
  const [isBroken, setBroken] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const safe = safeImage(image.url);
  if (safe === undefined) {
    return (
      <div class="message-part">
        <div class="part-head">Image that is not shown</div>
        <code class="user-text">{beginning(image.url, 300)}</code>
      </div>
    );
  }
  return (
    <div class="message-part" ref={place}>
      {isShown && !isBroken && (
        <img
          class="message-image"
          src={safe.url}
          alt="From the message"
          onError={() => setBroken(true)}
        />
      )}
      {isBroken && <p class="muted">The browser cannot read this image.</p>}
      {!isShown && (
        <button type="button" onClick={() => setShown(true)}>
          Show image ({bytes(safe.size)})
        </button>
      )}
    </div>
  );
}
