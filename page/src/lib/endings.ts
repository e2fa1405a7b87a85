/** The browser's notifications when a job ends, if allowed: from one tab, which may be hidden. */
import { call } from '../api/client'
import type { JobSummary } from '../api/types'
import { permission } from './notifications.svelte'
import { navigate } from './router.svelte'
import { session } from './session.svelte'

const POLL_MS = 5000
const MOST = 20

/** Ends that were seen, and the time of the oldest: what ended before it is no news. */
type Known = { ends: Set<string>; oldest: number }

/** Watch for ends as long as the tab exists; of several tabs, the one that holds the lock asks. */
export function watchEndings(): void {
  // Without a secure context there are neither locks nor notifications.
  void navigator.locks?.request('redkiln-endings', watch)
}

async function watch(): Promise<never> {
  let known: Known | null = null
  for (;;) {
    const isAllowed = permission() === 'granted' && !session.needsLogin
    known = isAllowed ? await look(known) : null
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

/** Notify about ends that are not known; the first look only learns what ended before. */
async function look(known: Known | null): Promise<Known | null> {
  try {
    const query = { status: ['succeeded', 'failed', 'cancelled'], sort: '-ended', limit: MOST } as const
    const { data } = await call('get', '/v1/jobs', { query: { ...query, status: [...query.status] } })
    if (known) data.filter((job) => isNew(job, known)).forEach(notify)
    return {
      ends: new Set([...(known?.ends ?? []), ...data.map(endOf)]),
      oldest: known?.oldest ?? (data.length > 0 ? Math.min(...data.map(timeOf)) : -Infinity),
    }
  } catch {
    return known // the service is away, as the page says; the next look follows
  }
}

/** A job that was deleted pulls an older one into the list; a job that was retried ends again. */
function isNew(job: JobSummary, known: Known): boolean {
  return !known.ends.has(endOf(job)) && !(timeOf(job) < known.oldest)
}

function endOf(job: JobSummary): string {
  return `${job.id} ${job.finished_at}`
}

function timeOf(job: JobSummary): number {
  return Date.parse(job.finished_at ?? '')
}

function notify(job: JobSummary): void {
  const note = new Notification(`${job.name} ${job.status}`, { body: job.reason?.message ?? '', tag: endOf(job) })
  note.onclick = () => {
    focus()
    navigate(`/jobs/${job.id}`)
    note.close()
  }
}
