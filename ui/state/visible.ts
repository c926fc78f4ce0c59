import { useEffect, useState } from 'preact/hooks';

/** Whether a person can see the page: it is in no tab in the background. */
export function useIsVisible(): boolean {
  const [isVisible, setVisible] = useState(isShown());
  useEffect(() => {
    const change = (): void => setVisible(isShown());
    document.addEventListener('visibilitychange', change);
    return () => document.removeEventListener('visibilitychange', change);
  }, []);
  return isVisible;
}

function isShown(): boolean {
  return document.visibilityState === 'visible';
}
