/** The metric series and sensor readings of a job, kept current while it runs. */
import { call } from '../api/client'
import type { Series, TelemetrySeries } from '../api/types'
import { append, refine, type Points } from './curves'

const MAX_POINTS = 2000
/** After this many parts were appended, all is asked for again, thinned evenly. */
const FULL_EVERY = 60

export class SeriesState {
  metrics = $state.raw<Record<string, Points>>({})
  sensors = $state.raw<Record<string, Points>>({})
  isLoaded = $state(false)
  /** All points of a range of steps, by name. */
  detail = $state.raw<Record<string, Points>>({})
  /** The same of the sensors, for a range of seconds. */
  sensorDetail = $state.raw<Record<string, Points>>({})
  #parts = 0
  #isBusy = false
  /** Whether something became new while the service was asked; and whether all is wanted. */
  #next: { isAll: boolean } | null = null

  constructor(
    readonly id: string,
    readonly options: { withSensors: boolean } = { withSensors: true },
  ) {}

  /** Ask for what is new; everything at first, and when `isAll`. */
  async update(isAll = false): Promise<void> {
    if (this.#isBusy) {
      this.#next = { isAll: isAll || this.#next?.isAll === true }
      return
    }
    this.#isBusy = true
    const isFull = isAll || !this.isLoaded || this.#parts >= FULL_EVERY
    this.#parts = isFull ? 0 : this.#parts + 1
    try {
      const [metrics, sensors] = await Promise.all([
        loadMetrics(this.id, { after: isFull ? null : oldestEnd(this.metrics) }),
        this.options.withSensors ? loadSensors(this.id, { after: isFull ? null : inMs(oldestEnd(this.sensors)) }) : {},
      ])
      this.metrics = isFull ? metrics : merge(this.metrics, metrics)
      this.sensors = isFull ? sensors : merge(this.sensors, sensors)
      this.isLoaded = true
    } catch {
      // the note about the service says so; the next round asks again
    } finally {
      this.#isBusy = false
    }
    const next = this.#next
    this.#next = null
    if (next) await this.update(next.isAll)
  }

  /** The series with full detail where it is known. */
  readonly fineMetrics = $derived.by(() => refineAll(this.metrics, this.detail))
  readonly fineSensors = $derived.by(() => refineAll(this.sensors, this.sensorDetail))

  /** Ask for all points of a range of steps; null forgets them. */
  async loadDetail(range: [number, number] | null): Promise<void> {
    this.detail = range === null ? {} : await loadMetrics(this.id, { from: range[0], to: range[1] })
  }

  /** The same of the sensors, for a range of Unix seconds. */
  async loadSensorDetail(range: [number, number] | null): Promise<void> {
    this.sensorDetail = range === null ? {} : await loadSensors(this.id, { from: range[0] * 1000, to: range[1] * 1000 })
  }
}

/** What to ask for: what comes after a place, or a range. */
interface Part {
  after?: number | null
  from?: number
  to?: number
}

function refineAll(coarse: Record<string, Points>, fine: Record<string, Points>): Record<string, Points> {
  return Object.fromEntries(
    Object.entries(coarse).map(([name, points]) => [name, fine[name] ? refine(points, fine[name]) : points]),
  )
}

/** A part's range, rounded outwards. */
function bounds({ from, to }: Part): [number | undefined, number | undefined] {
  return [from === undefined ? undefined : Math.max(0, Math.floor(from)), to === undefined ? undefined : Math.max(0, Math.ceil(to))]
}

async function loadMetrics(id: string, part: Part): Promise<Record<string, Points>> {
  const [from, to] = bounds(part)
  const { series } = await call('get', '/v1/jobs/{job_id}/metrics', {
    path: { job_id: id },
    query: { max_points: MAX_POINTS, after_step: part.after ?? undefined, from_step: from, to_step: to },
  })
  return Object.fromEntries((series ?? []).map((one: Series) => [one.name, { x: one.steps, y: one.values }]))
}

async function loadSensors(id: string, part: Part): Promise<Record<string, Points>> {
  const [from, to] = bounds(part)
  const { series } = await call('get', '/v1/jobs/{job_id}/telemetry', {
    path: { job_id: id },
    query: { max_points: MAX_POINTS, after_ms: part.after ?? undefined, from_ms: from, to_ms: to },
  })
  return Object.fromEntries(
    (series ?? []).map((one: TelemetrySeries) => [
      one.name,
      { x: one.at_ms.map((ms) => ms / 1000), y: one.values },
    ]),
  )
}

/** The end of the series that is furthest behind: a later point of any series may be new. */
function oldestEnd(all: Record<string, Points>): number | null {
  const ends = Object.values(all).map((points) => points.x.at(-1) ?? 0)
  return ends.length > 0 ? Math.min(...ends) : null
}

function merge(old: Record<string, Points>, fresh: Record<string, Points>): Record<string, Points> {
  const merged = { ...old }
  for (const [name, points] of Object.entries(fresh)) {
    merged[name] = append(old[name] ?? { x: [], y: [] }, points)
  }
  return merged
}

function inMs(seconds: number | null): number | null {
  return seconds === null ? null : Math.floor(seconds * 1000)
}
