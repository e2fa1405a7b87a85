/** The browser's notifications when a job ends, if allowed: from one tab, which may be hidden. */
import { call } from '../api/client'
import type { JobSummary } from '../api/types'
import { permission } from './notifications.svelte'
import { navigate } from './router.svelte'
import { session } from './session.svelte'

const POLL_MS = 5000
const MOST = 20

/** Watch for ends as long as the tab exists; of several tabs, the one that holds the lock asks. */
export function watchEndings(): void {
  // Without a secure context there are neither locks nor notifications.
  void navigator.locks?.request('redkiln-endings', watch)
}

async function watch(): Promise<never> {
  let known: Set<string> | null = null
  for (;;) {
    const isAllowed = permission() === 'granted' && !session.needsLogin
    known = isAllowed ? await look(known) : null
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

/** Notify about jobs that are not known; the first look only learns what ended before. */
async function look(known: Set<string> | null): Promise<Set<string> | null> {
  try {
    const query = { status: ['succeeded', 'failed', 'cancelled'], sort: '-ended', limit: MOST } as const
    const { data } = await call('get', '/v1/jobs', { query: { ...query, status: [...query.status] } })
    if (known) data.filter((job) => !known.has(job.id)).forEach(notify)
    return new Set([...(known ?? []), ...data.map((job) => job.id)])
  } catch {
    return known // the service is away, as the page says; the next look follows
  }
}

function notify(job: JobSummary): void {
  const note = new Notification(`${job.name} ${job.status}`, { body: job.reason?.message ?? '', tag: job.id })
  note.onclick = () => {
    focus()
    navigate(`/jobs/${job.id}`)
    note.close()
  }
}
