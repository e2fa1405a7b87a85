/** A job next to others: its facts, its curves, and when its steps were made. */
import { call } from '../../api/client'
import type { Job, JobEvent } from '../../api/types'
import type { Scale } from '../../lib/chartview'
import { SeriesState } from '../../lib/series.svelte'
import { stepTimes } from '../../lib/timeline'

const PAGE = 1000

export class ComparedJob {
  job = $state.raw<Job | null>(null)
  events = $state.raw<JobEvent[]>([])
  readonly series: SeriesState
  #isBusy = false

  constructor(readonly id: string) {
    this.series = new SeriesState(id, { withSensors: false })
  }

  /** The places of its steps; seconds count from the first step. */
  readonly scale = $derived.by((): Scale => {
    const times = stepTimes(this.events)
    const start = times[0]?.[1] ?? 0
    const progress = this.job?.progress
    return {
      stepsPerEpoch: progress && progress.epochs > 0 ? progress.steps / progress.epochs : 0,
      times: times.map(([step, seconds]) => [step, seconds - start]),
    }
  })

  /** Ask for what is new; nothing is new once a job that has ended is known. */
  async update(): Promise<void> {
    if (this.#isBusy || (this.job?.is_terminal && this.series.isLoaded)) return
    this.#isBusy = true
    try {
      const path = { job_id: this.id }
      const [job, events] = await Promise.all([call('get', '/v1/jobs/{job_id}', { path }), this.#newEvents()])
      const isOver = job.is_terminal && this.job?.is_terminal === false
      const isRestarted = (job.attempts?.length ?? 0) !== (this.job?.attempts?.length ?? 0)
      await this.series.update(isOver || isRestarted)
      this.job = job
      if (events.length > 0) this.events = [...this.events, ...events]
    } finally {
      this.#isBusy = false
    }
  }

  async #newEvents(): Promise<JobEvent[]> {
    const found: JobEvent[] = []
    for (;;) {
      const after = found.at(-1)?.seq ?? this.events.at(-1)?.seq ?? 0
      const page = await call('get', '/v1/jobs/{job_id}/events', {
        path: { job_id: this.id },
        query: { after_seq: after, limit: PAGE },
        headers: { accept: 'application/json' },
      })
      found.push(...page.data)
      if (!page.has_more) return found
    }
  }
}
