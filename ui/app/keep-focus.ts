/**
 * Gives the focus a place when the element that has it leaves the page: a button that shows more, a retry, a row that was deleted. The browser
 * would leave it to the body, and a screen reader would begin the page again. The place is the nearest element around it that is still
 * there. A button that is disabled while it works gets the focus back.
 */
export function keepFocus(): void {
  let lost: Held | undefined;
  let held: Held | undefined;
  document.addEventListener('focusin', ({ target }) => {
    held =
      target instanceof HTMLElement ? { element: target, around: aroundOf(target) } : undefined;
    lost = undefined;
  });
  // A click beside every control takes the focus away, and the person means it.
  document.addEventListener('pointerdown', () => {
    held = undefined;
    lost = undefined;
  });
  const giveBack = (): void => {
    if (lost !== undefined && !hasFocus()) placeOf(lost)?.focus({ preventScroll: true });
  };
  const observer = new MutationObserver(() => {
    if (held !== undefined && isUseless(held.element)) lost = held;
    // Later: a menu closes while Tab is on its way to the next element, which gets the focus after this.
    if (lost !== undefined) setTimeout(giveBack);
  });
  observer.observe(document.body, {
    childList: true,
    subtree: true,
    attributeFilter: ['disabled'],
  });
}

type Held = {
  readonly element: HTMLElement;
  /** The elements around it, the nearest one first. */
  readonly around: readonly HTMLElement[];
};

function aroundOf(element: HTMLElement): readonly HTMLElement[] {
  const around: HTMLElement[] = [];
  for (let each = element.parentElement; each !== null; each = each.parentElement) {
    // The place of all pages: a page that takes it says itself where the focus goes.
    if (each.parentElement === document.body) break;
    around.push(each);
  }
  return around;
}

function isUseless(element: Element): boolean {
  return !element.isConnected || element.matches(':disabled');
}

/** Whether an element other than the body has it. */
function hasFocus(): boolean {
  const { activeElement } = document;
  return activeElement !== null && activeElement !== document.body && !isUseless(activeElement);
}

/** Undefined while it is disabled: it may work again in a moment. */
function placeOf({ element, around }: Held): HTMLElement | undefined {
  if (element.isConnected) return isUseless(element) ? undefined : element;
  const place = around.find((each) => each.isConnected);
  // An element that takes the focus already, such as the tree of a trace, keeps its place among those that Tab visits.
  if (place !== undefined && place.tabIndex < 0) place.tabIndex = -1;
  return place;
}
