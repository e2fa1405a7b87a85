/** The address as state: which view is shown, and everything that a view remembers. */

class Route {
  path = $state('/')
  query = $state(new URLSearchParams())
  /** Counts navigations, so that the view can move the focus to its heading. */
  visits = $state(0)

  get parts(): string[] {
    return this.path.split('/').filter(Boolean).map(decode)
  }

  get(name: string, fallback = ''): string {
    return this.query.get(name) ?? fallback
  }

  all(name: string): string[] {
    return this.query.getAll(name)
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const route = new Route()

function read(): void {
  route.path = location.pathname
  route.query = new URLSearchParams(location.search)
}

/** Follow the address from now on, and handle clicks on the page's own links. */
export function startRouter(): void {
  read()
  addEventListener('popstate', () => {
    read()
    route.visits += 1
  })
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = (event.target as Element | null)?.closest('a')
    if (!link || link.target || link.hasAttribute('download') || !isOwn(link)) return
    event.preventDefault()
    navigate(link.pathname + link.search + link.hash)
  })
}

function isOwn(link: HTMLAnchorElement): boolean {
  return link.origin === location.origin && !/^\/(v1|docs|redoc|openapi\.json)(\/|$)/.test(link.pathname)
}

/** Go to an address of the page. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, '', to)
  else history.pushState(null, '', to)
  read()
  if (!options.replace) {
    route.visits += 1
    scrollTo(0, 0)
  }
}

/** Change parameters of the address without a new entry in the history; null removes one. */
export function setQuery(values: Record<string, string | string[] | null>): void {
  const query = new URLSearchParams(route.query)
  for (const [name, value] of Object.entries(values)) {
    query.delete(name)
    for (const item of value === null ? [] : [value].flat()) query.append(name, item)
  }
  const search = query.toString()
  navigate(route.path + (search ? `?${search}` : ''), { replace: true })
}
