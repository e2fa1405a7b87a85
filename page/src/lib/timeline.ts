/** A job's life as stretches of time: waiting, paused, ended before a retry, and the phases of each attempt. */
import type { Attempt, JobEvent } from '../api/types'
import { between } from './format'

export interface Stretch {
  kind: string
  start: number
  end: number
  attempt: number
}

const WAITS = new Set(['submitted', 'requeued', 'resumed', 'retried'])
/** What a job asked to finish waits after; one that runs saves its state first, and then is requeued. */
const RESTS = new Set(['paused', 'ended'])
const ENDS = new Set(['succeeded', 'failed', 'cancelled'])
/** Shorter stretches are drawn as part of the one before. */
const SMALLEST_SHARE = 0.004

/** The stretches between a job's events; the last one of an active job reaches to `now`. */
export function stretches(events: JobEvent[], now: number): Stretch[] {
  const found: Stretch[] = []
  let attempt = 0
  const begin = (kind: string, at: number): void => {
    const last = found.at(-1)
    if (last) last.end = Math.max(last.start, at)
    found.push({ kind, start: at, end: at, attempt })
  }
  for (const event of events) {
    const at = Date.parse(event.at)
    if (event.kind === 'started') {
      attempt = Number(event.data?.number ?? attempt + 1)
      begin('preparing', at)
    } else if (event.kind === 'phase') begin(String(event.data?.phase), at)
    else if (event.kind === 'paused') begin('paused', at)
    else if (WAITS.has(event.kind) || (event.kind === 'finishing' && RESTS.has(found.at(-1)?.kind ?? ''))) begin('waiting', at)
    else if (ENDS.has(event.kind)) begin('ended', at)
  }
  const last = found.at(-1)
  if (last?.kind === 'ended') found.pop()
  else if (last) last.end = Math.max(last.end, now)
  return simplify(found)
}

/** Join short stretches with the one before, and neighbours of the same kind and attempt. */
export function simplify(all: Stretch[]): Stretch[] {
  const total = (all.at(-1)?.end ?? 0) - (all[0]?.start ?? 0)
  const kept: Stretch[] = []
  for (const one of all) {
    const last = kept.at(-1)
    const isShort = one.end - one.start < SMALLEST_SHARE * total
    const isSame = last?.kind === one.kind
    if (last && last.attempt === one.attempt && (isShort || isSame)) last.end = one.end
    else kept.push({ ...one })
  }
  return kept
}

/** The seconds in which a job's attempts ran, without pauses and the time before a retry. */
export function runningSeconds(attempts: Attempt[], now: number): number {
  return attempts.reduce((sum, one) => sum + between(one.started_at, one.finished_at, now), 0)
}

/** Pairs of step and Unix seconds, from the events that name a step. */
export function stepTimes(events: JobEvent[]): [number, number][] {
  const pairs: [number, number][] = []
  for (const event of events) {
    const seconds = Date.parse(event.at) / 1000
    if (event.kind === 'phase' && event.data?.phase === 'training' && pairs.length === 0) {
      pairs.push([0, seconds])
    }
    const step = event.kind === 'checkpoint' ? Number(event.data?.step) : NaN
    while (pairs.length > 0 && pairs.at(-1)![0] >= step) pairs.pop()
    if (Number.isFinite(step)) pairs.push([step, seconds])
  }
  return pairs
}
