/** Dark or light: as the system, or as chosen in this browser. */

export type Theme = 'system' | 'light' | 'dark'
const KEY = 'redkiln-theme'

class ThemeState {
  chosen = $state<Theme>(load())
  /** Counts changes of the colours, for what draws on a canvas. */
  changes = $state(0)
}

function load(): Theme {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}

export const theme = new ThemeState()

export function applyTheme(): void {
  show()
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (theme.changes += 1))
}

function show(): void {
  if (theme.chosen === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme.chosen
}

export function chooseTheme(chosen: Theme): void {
  theme.chosen = chosen
  if (chosen === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, chosen)
  show()
  theme.changes += 1
}

/** The current value of a colour, such as `--accent`. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
