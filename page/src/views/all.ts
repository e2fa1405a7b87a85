/** The views by their first word in the address. All but the first are loaded when they open. */
import type { Component } from 'svelte'

interface View {
  title: string
  load: () => Promise<{ default: Component }>
}

export const VIEWS = {
  home: { title: 'Home', load: () => import('./home/Home.svelte') },
  job: { title: 'Job', load: () => import('./job/JobPage.svelte') },
  missing: { title: 'Not found', load: () => import('./Missing.svelte') },
} satisfies Record<string, View>

export type ViewName = keyof typeof VIEWS

const BY_FIRST_PART: Record<string, ViewName> = {}

/** The view of an address's parts. */
export function viewOf(parts: string[]): ViewName {
  const first = parts[0]
  if (first === undefined) return 'home'
  if (first === 'jobs') return parts.length === 2 ? 'job' : 'missing'
  return BY_FIRST_PART[first] ?? 'missing'
}
