import type { ComponentChildren, ComponentType, JSX } from 'preact';
import { Component } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, get } from '../api/client.ts';
import { Failure } from '../parts/failure.tsx';
import { Link } from '../parts/link.tsx';
import { Loading } from '../parts/loading.tsx';
import { PageHead } from '../parts/page-head.tsx';
import { project } from '../state/projects.ts';
import { path, query } from '../state/router.ts';
import { useTitle } from '../state/title.ts';
import type { ViewProps } from './routes.ts';
import { routeOf } from './routes.ts';
import { UnknownProject } from './unknown-project.tsx';
import { usePageFocus } from './use-page-focus.ts';

type Loaded = { readonly pattern: string; readonly View: ComponentType<ViewProps> };

// The daemon is away, or a newer version of it has other files.
const NOT_LOADED = new ApiFailure(0, {
  code: 'no_page',
  message: 'The page could not be loaded. Check that the daemon runs, and try again.',
});

type Props = {
  /** Of the address that the browser loaded; not one that shows after a sign-in. */
  readonly isFirst: boolean;
};

/** The page of the address. */
export function Page({ isFirst }: Props): JSX.Element {
  const place = useRef<HTMLElement>(null);
  usePageFocus(place, isFirst);
  const route = routeOf(path.value);
  const [loaded, setLoaded] = useState<Loaded | undefined>(undefined);
  const [failure, setFailure] = useState<ApiFailure | undefined>(undefined);
  const pattern = route?.pattern;
  const view = loaded?.pattern === pattern ? loaded : undefined;
  const isUnknown = project.value === undefined && route?.isOfAll !== true;
  // A page shows older data until newer is there; that of another project would be wrong.
  const of = route?.isOfAll === true ? undefined : project.value?.id;
  const unknown = isUnknown ? (query.value.get('project') ?? undefined) : undefined;

  useEffect(() => {
    let isCurrent = true;
    setFailure(undefined);
    route?.load().then(
      ({ View }) => {
        if (isCurrent) setLoaded({ pattern: route.pattern, View });
      },
      () => {
        if (isCurrent) setFailure(NOT_LOADED);
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [pattern]);

  /** Loads the address again, because a browser keeps a module that failed. Without a daemon that would lose the page. */
  const reload = async (): Promise<void> => {
    try {
      await get('/service');
      location.reload();
    } catch (error) {
      setFailure(ApiFailure.of(error));
    }
  };

  return (
    <main class="page" id="page" tabIndex={-1} ref={place}>
      {failure !== undefined && <Failed failure={failure} retry={() => void reload()} />}
      {route === undefined && <NotFound />}
      {route !== undefined && failure === undefined && view === undefined && <Loading />}
      {route !== undefined && failure === undefined && view !== undefined && (
        <Guard key={`${of} ${path.value}`}>
          {unknown === undefined ? (
            <view.View params={route.params} />
          ) : (
            <UnknownProject key={unknown} id={unknown} />
          )}
        </Guard>
      )}
    </main>
  );
}

function NotFound(): JSX.Element {
  useTitle('No such page');
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        <Link to="/traces">Go to the traces</Link>
      </p>
    </div>
  );
}

type FailedProps = { readonly failure: ApiFailure; readonly retry: () => void };

/** In the place of a page: it has a heading as every page, which gets the focus. */
function Failed({ failure, retry }: FailedProps): JSX.Element {
  return (
    <>
      <PageHead title="The page failed" />
      <Failure failure={failure} retry={retry} />
    </>
  );
}

type Caught = { readonly failure: ApiFailure | undefined };

/** Keeps the frame usable when a page throws. */
class Guard extends Component<{ children: ComponentChildren }, Caught> {
  override state: Caught = { failure: undefined };

  override componentDidCatch(error: unknown): void {
    this.setState({ failure: ApiFailure.of(error) });
  }

  override render(): ComponentChildren {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    return <Failed failure={failure} retry={() => this.setState({ failure: undefined })} />;
  }
}
