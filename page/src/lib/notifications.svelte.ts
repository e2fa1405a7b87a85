/** Notices: short ones on the page, and the browser's own when a job ends, if allowed. */
import type { JobSummary } from '../api/types'
import { navigate } from './router.svelte'

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

/** Notify about jobs that ended since the last look. */
export function notifyEnded(before: { ended: JobSummary[] }, after: { ended: JobSummary[] }): void {
  if (permission() !== 'granted' || before.ended === after.ended) return
  const known = new Set(before.ended.map((job) => job.id))
  const newest = before.ended[0]?.finished_at ?? ''
  for (const job of after.ended) {
    if (known.has(job.id) || (job.finished_at ?? '') < newest) continue
    const note = new Notification(`${job.name} ${job.status}`, {
      body: job.reason?.message ?? '',
      tag: job.id,
    })
    note.onclick = () => {
      focus()
      navigate(`/jobs/${job.id}`)
      note.close()
    }
  }
}
