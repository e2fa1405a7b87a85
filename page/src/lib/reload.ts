/** A part of the page that cannot be loaded: the connection broke, or the service has a newer page with other files. */

const KEY = 'redkiln-reloaded'
const LEAST_MS = 60_000

/** Load the whole page again once the service answers, at most once a minute. Until then the view says that it failed. */
export function reloadIfPartsAreMissing(): void {
  addEventListener('vite:preloadError', () => {
    const last = Number(sessionStorage.getItem(KEY) ?? 0)
    if (Date.now() - last < LEAST_MS) return
    void fetch('/', { cache: 'no-store' }).then(
      (answer) => {
        if (!answer.ok) return
        sessionStorage.setItem(KEY, String(Date.now()))
        location.reload()
      },
      () => undefined,
    )
  })
}
