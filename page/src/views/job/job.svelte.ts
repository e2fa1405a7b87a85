/** One job, kept current by its event stream. */
import { call, Problem, words } from '../../api/client'
import { follow } from '../../api/stream'
import type { Job, JobEvent, JobSummary } from '../../api/types'
import { onceBack } from '../../lib/connection.svelte'

const RELOAD_MS = 250
const PAGE = 1000

export class JobState {
  job = $state.raw<Job | null>(null)
  events = $state.raw<JobEvent[]>([])
  error = $state<string | null>(null)
  isMissing = $state(false)
  /** Counts what the stream says of the job's progress: there may be new points. */
  news = $state(0)
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopStream: (() => void) | null = null
  #isClosed = false
  #fresh: JobEvent[] = []

  constructor(readonly id: string) {}

  /** Load the job and its events, and follow both; returns the end of that. */
  start(): () => void {
    void this.#load().then(() => this.#listen())
    return () => {
      this.#isClosed = true
      this.#stopStream?.()
      clearTimeout(this.#timer)
    }
  }

  /** Load the job again, and follow it again if it had ended and now continues. */
  async reload(): Promise<void> {
    const hadEnded = this.job?.is_terminal === true
    await this.#load()
    if (hadEnded && this.job?.is_terminal === false) this.#listen()
  }

  async #load(): Promise<void> {
    try {
      const path = { job_id: this.id }
      const missing = this.events.length === 0
      const [job, events] = await Promise.all([
        call('get', '/v1/jobs/{job_id}', { path }),
        missing ? this.#loadEvents() : Promise.resolve(this.events),
      ])
      this.job = job
      if (missing) this.#add(events)
      this.error = null
    } catch (error) {
      if (error instanceof Problem && error.isAway) onceBack(() => void this.#load())
      else this.isMissing = error instanceof Problem && error.status === 404
      this.error = words(error)
    }
  }

  async #loadEvents(): Promise<JobEvent[]> {
    const all: JobEvent[] = []
    for (;;) {
      const page = await call('get', '/v1/jobs/{job_id}/events', {
        path: { job_id: this.id },
        query: { after_seq: all.at(-1)?.seq ?? 0, limit: PAGE },
        headers: { accept: 'application/json' },
      })
      all.push(...page.data)
      if (!page.has_more) return all
    }
  }

  #listen(): void {
    if (this.#isClosed || this.isMissing) return
    this.#stopStream?.()
    this.#stopStream = follow(`/v1/jobs/${encodeURIComponent(this.id)}/events`, {
      lastId: String(this.events.at(-1)?.seq ?? 0),
      endsWith: 'end',
      onEvent: (event) => {
        if (event.name === 'progress' || event.name === 'end') {
          this.news += 1
          this.#merge(JSON.parse(event.data) as JobSummary)
          if (event.name === 'end') this.#reloadSoon()
          return
        }
        this.#fresh.push(JSON.parse(event.data) as JobEvent)
        if (event.name !== 'checkpoint' && event.name !== 'message') this.#reloadSoon()
        queueMicrotask(() => this.#flush())
      },
    })
  }

  /** Many events may arrive in one piece of the stream: the list grows once. */
  #flush(): void {
    if (this.#fresh.length > 0) this.#add(this.#fresh.splice(0))
  }

  /** The stream and a load may both deliver an event: it is shown once. */
  #add(more: JobEvent[]): void {
    const last = this.events.at(-1)?.seq ?? 0
    if ((more[0]?.seq ?? 0) > last) this.events = [...this.events, ...more]
    else {
      const all = new Map([...this.events, ...more].map((event) => [event.seq, event]))
      this.events = [...all.values()].sort((a, b) => a.seq - b.seq)
    }
  }

  #merge(summary: JobSummary): void {
    if (this.job === null) return
    const { result, ...facts } = summary
    this.job = { ...this.job, ...facts, result: result ? this.job.result : null }
  }

  #reloadSoon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#load(), RELOAD_MS)
  }
}
