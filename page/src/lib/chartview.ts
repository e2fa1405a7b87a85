/** What is chosen for all charts of a view, as its address keeps it. */
import { interpolate } from './curves'
import { route, setQuery } from './router.svelte'

export type Axis = 'step' | 'epoch' | 'time'
export type Range = [number, number]

/** How the steps of a job are placed on the other axes. */
export interface Scale {
  /** 0 if unknown. */
  stepsPerEpoch: number
  /** Pairs of step and seconds, with rising steps. */
  times: [number, number][]
}

export function chosenAxis(): Axis {
  const axis = route.get('x')
  return axis === 'epoch' || axis === 'time' ? axis : 'step'
}

export function chosenLog(): boolean {
  return route.get('log') === '1'
}

/** Smooth enough to compare curves whose every step is a point. */
const SMOOTHING = 0.6

/** Weight of the past in [0, 1). */
export function chosenSmoothing(): number {
  return Math.min(0.99, Math.max(0, Number(route.get('smooth', String(SMOOTHING))) || 0))
}

export function chooseSmoothing(weight: number): void {
  setQuery({ smooth: weight === SMOOTHING ? null : String(weight) })
}

/** Names of the curves that are not drawn. */
export function hiddenCurves(): Set<string> {
  return new Set(route.all('hide'))
}

/** Draw a curve again, or no longer. */
export function toggleCurve(name: string): void {
  const hidden = hiddenCurves()
  if (!hidden.delete(name)) hidden.add(name)
  setQuery({ hide: [...hidden] })
}

export function rangeText(range: Range | null): string | null {
  return range ? range.map((end) => Number(end.toPrecision(13))).join('~') : null
}

export function parseRange(text: string): Range | null {
  const [low, high] = text.split('~').map(Number)
  if (low === undefined || high === undefined || !(high > low)) return null
  return [low, high]
}

/** Places of steps on an axis; steps themselves if it is not known where they are. */
export function placeSteps(steps: number[], axis: Axis, scale: Scale): number[] {
  if (axis === 'epoch' && scale.stepsPerEpoch > 0) return steps.map((step) => step / scale.stepsPerEpoch)
  if (axis === 'time' && scale.times.length > 1) return interpolate(steps, scale.times)
  return steps
}

/** A range of an axis as steps. */
export function stepsOf(range: Range, axis: Axis, scale: Scale): Range {
  if (axis === 'epoch' && scale.stepsPerEpoch > 0) {
    return [range[0] * scale.stepsPerEpoch, range[1] * scale.stepsPerEpoch]
  }
  if (axis !== 'time' || scale.times.length < 2) return range
  const pairs = scale.times.map(([step, seconds]): [number, number] => [seconds, step])
  const [low = 0, high = 0] = interpolate(range, pairs)
  return [low, high]
}
