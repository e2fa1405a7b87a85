/** The views by their first word in the address. All but the first are loaded when they open. */
import type { Component } from 'svelte'

interface View {
  title: string
  load: () => Promise<{ default: Component }>
}

export const VIEWS = {
  home: { title: 'Home', load: () => import('./home/Home.svelte') },
  job: { title: 'Job', load: () => import('./job/JobPage.svelte') },
  new: { title: 'New job', load: () => import('./new/New.svelte') },
  try: { title: 'Try it', load: () => import('./try/Try.svelte') },
  data: { title: 'Data', load: () => import('./data/Data.svelte') },
  models: { title: 'Models', load: () => import('./Models.svelte') },
  compare: { title: 'Compare', load: () => import('./compare/Compare.svelte') },
  machines: { title: 'Machines', load: () => import('./machines/Machines.svelte') },
  settings: { title: 'Settings', load: () => import('./settings/Settings.svelte') },
  missing: { title: 'Not found', load: () => import('./Missing.svelte') },
} satisfies Record<string, View>

export type ViewName = keyof typeof VIEWS

/** How many parts the address of a view has at most. */
const MOST_PARTS: Partial<Record<string, number>> = { new: 1, try: 2, data: 2, models: 2, compare: 1, machines: 1, settings: 1 }

/** The view of an address's parts. */
export function viewOf(parts: string[]): ViewName {
  const first = parts[0]
  if (first === undefined) return 'home'
  if (first === 'jobs') return parts.length === 2 ? 'job' : 'missing'
  return parts.length <= (MOST_PARTS[first] ?? 0) ? (first as ViewName) : 'missing'
}
