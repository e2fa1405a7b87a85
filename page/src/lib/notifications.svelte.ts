/** Short notices on the page, and whether the browser allows its own. */
export interface Toast {
  id: number
  text: string
  tone: 'bad' | 'good'
}

class Toasts {
  all = $state<Toast[]>([])
}

export const toasts = new Toasts()
let count = 0
const SHOWN_MS = { bad: 12_000, good: 5000 }

export function say(text: string, tone: Toast['tone'] = 'good'): void {
  const id = (count += 1)
  toasts.all.push({ id, text, tone })
  setTimeout(() => dismiss(id), SHOWN_MS[tone])
}

export function dismiss(id: number): void {
  toasts.all = toasts.all.filter((toast) => toast.id !== id)
}

/** What the browser says about notifications; `missing` where it has none. */
export function permission(): NotificationPermission | 'missing' {
  return typeof Notification === 'undefined' ? 'missing' : Notification.permission
}
