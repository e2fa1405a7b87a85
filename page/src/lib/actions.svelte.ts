/** What a person can do with a job. Each action reports its failure as a notice. */
import { call, words } from '../api/client'
import type { JobSummary } from '../api/types'
import { say } from './notifications.svelte'

export interface Question {
  title: string
  text: string
  yes: string
  act: () => void
  /** What the question is about; it is no longer asked once the job cannot do that. */
  of?: { id: string; verb: Verb }
}

class Asking {
  current = $state<Question | null>(null)
}

export const asking = new Asking()

export type Verb = 'pause' | 'resume' | 'cancel' | 'finish'

/** Run a request and show its failure; returns whether it succeeded. */
export async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act()
    return true
  } catch (error) {
    say(words(error), 'bad')
    return false
  }
}

export function steer(job: JobSummary, verb: Verb): Promise<boolean> {
  const path = { job_id: job.id }
  const requests = {
    pause: () => call('post', '/v1/jobs/{job_id}/pause', { path }),
    resume: () => call('post', '/v1/jobs/{job_id}/resume', { path }),
    cancel: () => call('post', '/v1/jobs/{job_id}/cancel', { path }),
    finish: () => call('post', '/v1/jobs/{job_id}/finish', { path }),
  }
  return attempt(requests[verb])
}

export function askToCancel(job: JobSummary): void {
  asking.current = {
    title: 'Cancel this job?',
    text: `“${job.name}” stops and exports no model. Its checkpoints are kept for a while, so that it can be run again from them.`,
    yes: 'Cancel the job',
    act: () => void steer(job, 'cancel'),
    of: { id: job.id, verb: 'cancel' },
  }
}

export function askToFinish(job: JobSummary): void {
  asking.current = {
    title: 'Stop training here?',
    text: `“${job.name}” stops training and exports the best model so far.`,
    yes: 'Stop and export',
    act: () => void steer(job, 'finish'),
    of: { id: job.id, verb: 'finish' },
  }
}

export function setPriority(job: JobSummary, priority: number): Promise<boolean> {
  return attempt(() =>
    call('post', '/v1/jobs/{job_id}/priority', { path: { job_id: job.id }, body: { priority } }),
  )
}

/** Put a queued job directly before or after another one. */
export function move(job: JobSummary, other: JobSummary, side: 'before' | 'after'): Promise<boolean> {
  return attempt(() =>
    call('post', '/v1/jobs/{job_id}/move', { path: { job_id: job.id }, body: { [side]: other.id } }),
  )
}

/** Keep a GPU free of jobs, which pauses its job, or give it back. */
export function hold(gpu: { worker_id: string; key: string }, isKept: boolean): Promise<boolean> {
  const path = { worker_id: gpu.worker_id, key: gpu.key }
  return attempt(() => call(isKept ? 'post' : 'delete', '/v1/gpus/{worker_id}/{key}/free', { path }))
}

/** The verbs that fit a job's status, in the order in which they are shown. */
export function verbs(job: JobSummary): Verb[] {
  const fitting: Record<string, Verb[]> = {
    queued: ['pause', 'cancel'],
    running: ['pause', 'finish', 'cancel'],
    paused: ['resume', 'finish', 'cancel'],
  }
  const found = fitting[job.status] ?? []
  return hasModel(job) ? found : found.filter((verb) => verb !== 'finish')
}

function hasModel(job: JobSummary): boolean {
  return job.task !== 'script' && job.task !== 'benchmark'
}
