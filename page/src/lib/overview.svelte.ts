/** What the home view shows, kept current by one stream. */
import { call } from '../api/client'
import { follow } from '../api/stream'
import type { components } from '../api/schema'
import type { Diagnosis, JobSummary } from '../api/types'

export interface Sparkline {
  name: string
  steps: number[]
  values: (number | null)[]
}

export type RunningJob = JobSummary & {
  sparkline?: Sparkline | null
  gpu_ids?: string[]
  worker_id?: string | null
  hostname?: string | null
  attempt_started_at?: string | null
  earlier_seconds?: number
}

export type OverviewGpu = components['schemas']['OverviewGpu']

export interface Overview {
  counts: Record<string, number>
  running: RunningJob[]
  waiting: JobSummary[]
  ended: JobSummary[]
  gpus: OverviewGpu[]
  disk: { free_bytes: number; total_bytes: number } | null
  health: { version: string; broker: string; num_live_workers: number; is_ready: boolean } | null
  doctor: { verdict: string; hostname?: string | null; line: string | null; fix: string | null }
}

class OverviewState {
  current = $state.raw<Overview | null>(null)
  users = 0
  stop: (() => void) | null = null
}

const state = new OverviewState()
const POLL_MS = 1500

/** The newest overview; null until the first answer. */
export function overview(): Overview | null {
  return state.current
}

/** Keep the overview current while a view is shown; returns the end of that. */
export function useOverview(): () => void {
  state.users += 1
  if (state.users === 1) state.stop = start()
  return () => {
    state.users -= 1
    if (state.users === 0) state.stop?.()
  }
}

function start(): () => void {
  let stopPolling: (() => void) | null = null
  const close = follow('/v1/overview/events', {
    onEvent: (event) => {
      if (event.name === 'overview') change(JSON.parse(event.data) as Partial<Overview>)
    },
    onRefused: (status) => {
      if (status === 404) stopPolling = poll()
    },
  })
  return () => {
    close()
    stopPolling?.()
  }
}

function change(changed: Partial<Overview>): void {
  state.current = { ...(state.current ?? EMPTY), ...changed }
}

const EMPTY: Overview = {
  counts: {},
  running: [],
  waiting: [],
  ended: [],
  gpus: [],
  disk: null,
  health: null,
  doctor: { verdict: 'ok', line: null, fix: null },
}

/** Ask again and again, for a service without the stream. */
function poll(): () => void {
  let isStopped = false
  async function look(): Promise<void> {
    while (!isStopped) {
      if (!document.hidden) await assemble().then(change).catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }
  void look()
  return () => (isStopped = true)
}

async function assemble(): Promise<Partial<Overview>> {
  const [active, ended, gpus, doctor] = await Promise.all([
    call('get', '/v1/jobs', {
      query: { status: ['queued', 'running', 'pausing', 'paused', 'cancelling'], limit: 200 },
    }),
    call('get', '/v1/jobs', { query: { status: ['succeeded', 'failed', 'cancelled'], limit: 20 } }),
    call('get', '/v1/gpus'),
    call('get', '/v1/doctor'),
  ])
  const isRunning = (job: JobSummary): boolean =>
    ['running', 'pausing', 'cancelling'].includes(job.status)
  const place = (job: JobSummary): number => job.queue_position ?? 1e6
  return {
    running: active.data.filter(isRunning),
    waiting: active.data.filter((job) => !isRunning(job)).sort((a, b) => place(a) - place(b)),
    ended: ended.data,
    gpus: gpus.data,
    doctor: firstTrouble(doctor),
  }
}

function firstTrouble(diagnosis: Diagnosis): Overview['doctor'] {
  const reports = [diagnosis.service, ...(diagnosis.workers ?? []).map((worker) => worker.report)]
  for (const report of reports) {
    const bad = report?.checks?.find((check) => check.verdict === 'bad' && check.severity !== 'note')
    if (bad) {
      const line = bad.cause || bad.title
      return { verdict: diagnosis.verdict, hostname: report?.hostname, line, fix: bad.fix ?? null }
    }
  }
  return { verdict: diagnosis.verdict, line: null, fix: null }
}
