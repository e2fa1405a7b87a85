/** The roofline of a benchmark: what memory and arithmetic allow, and what was measured. All are pure. */
import type { Measurement } from '../api/types'

export interface RoofPoint {
  title: string
  precision: string
  /** FLOP for each byte that is read or written. */
  intensity: number
  tflops: number
}

export interface Roof {
  precision: string
  /** TFLOP/s; null if no peak is known. */
  flat: number | null
}

export interface Roofline {
  points: RoofPoint[]
  roofs: Roof[]
  /** GB/s of the slope, and whether it is the computed peak or a measured rate. */
  bandwidth: number
  isMeasured: boolean
}

/** The roofline of some measurements; null if there is no bandwidth or no point. */
export function rooflineOf(measurements: Measurement[]): Roofline | null {
  const triad = measurements.find((one) => one.id === 'memory/triad')
  const bandwidth = triad?.peak ?? triad?.rate?.value
  const points = measurements.flatMap((one) =>
    one.rate && one.flop_per_byte && one.unit === 'TFLOP/s'
      ? [{ title: one.title, precision: one.precision ?? '', intensity: one.flop_per_byte, tflops: one.rate.value }]
      : [],
  )
  if (!bandwidth || points.length === 0) return null
  const precisions = [...new Set(points.map((point) => point.precision))]
  const roofs = precisions.map((precision) => {
    const peaks = measurements.filter((one) => one.test === 'matmul' && one.precision === precision && one.peak)
    return { precision, flat: peaks.length > 0 ? Math.max(...peaks.map((one) => one.peak ?? 0)) : null }
  })
  return { points, roofs, bandwidth, isMeasured: !triad?.peak }
}

/** TFLOP/s that a roof allows at an intensity. */
export function allowed(intensity: number, bandwidth: number, flat: number | null): number {
  const byMemory = (intensity * bandwidth) / 1000
  return flat === null ? byMemory : Math.min(byMemory, flat)
}

/** A logarithmic scale with its ticks, which are powers of ten or their thirds. */
export function scaleOf(values: number[], from: number, to: number): { at: (value: number) => number; ticks: number[] } {
  const low = Math.floor(Math.log10(Math.min(...values)))
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))))
  const at = (value: number): number => from + ((Math.log10(value) - low) / (high - low)) * (to - from)
  return { at, ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)) }
}
