/** Arithmetic of curves. All are pure. */

export interface Points {
  x: number[]
  y: (number | null)[]
}

/** Exponential moving average without the bias of its start; gaps stay gaps. */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  let sum = 0
  let total = 0
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null
    sum = weight * sum + (1 - weight) * value
    total = weight * total + (1 - weight)
    return sum / total
  })
}

const MARGIN = 0.1

/** The ends of an axis around values: of one value, too, and within [0, 1] for shares. */
export function rangeOf(low: number | null, high: number | null, isShare: boolean): [number, number] {
  if (low === null || high === null) return [0, 1]
  const margin = MARGIN * (high > low ? high - low : Math.abs(low)) || MARGIN
  const [start, end] = [low - margin, high + margin]
  const bottom = low >= 0 ? Math.max(0, start) : start
  return isShare && high <= 1 ? [bottom, Math.min(1, end)] : [bottom, end]
}

/** The points of `old` up to the first of `fresh`, then `fresh`. */
export function append(old: Points, fresh: Points): Points {
  const first = fresh.x[0]
  if (first === undefined) return old
  const end = lowerBound(old.x, first)
  return { x: [...old.x.slice(0, end), ...fresh.x], y: [...old.y.slice(0, end), ...fresh.y] }
}

/** The points of `coarse` with those within the range of `fine` replaced by `fine`. */
export function refine(coarse: Points, fine: Points): Points {
  const first = fine.x[0]
  const last = fine.x.at(-1)
  if (first === undefined || last === undefined) return coarse
  const start = lowerBound(coarse.x, first)
  const end = lowerBound(coarse.x, last + 1e-9)
  return {
    x: [...coarse.x.slice(0, start), ...fine.x, ...coarse.x.slice(end)],
    y: [...coarse.y.slice(0, start), ...fine.y, ...coarse.y.slice(end)],
  }
}

/** Index of the first element that is not below `value`. */
export function lowerBound(sorted: number[], value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Map x by linear interpolation between known pairs; beyond them by the nearest slope. */
export function interpolate(x: number[], pairs: [number, number][]): number[] {
  if (pairs.length < 2) return x.map(() => pairs[0]?.[1] ?? 0)
  const keys = pairs.map(([key]) => key)
  return x.map((value) => {
    const i = Math.min(Math.max(lowerBound(keys, value), 1), pairs.length - 1)
    const [x0, y0] = pairs[i - 1]!
    const [x1, y1] = pairs[i]!
    return x1 === x0 ? y1 : y0 + ((value - x0) / (x1 - x0)) * (y1 - y0)
  })
}

export interface Panel {
  title: string
  names: string[]
}

const PANELS: [string, RegExp][] = [
  ['Loss', /(^|\/)loss$/],
  ['Score', /accuracy|f1|auc|precision|recall|r2|map\d*$|iou|mae$|rmse$/],
  ['Learning rate', /^lr(\/|$)/],
  ['Throughput, samples per second', /^samples_per_second$/],
  ['Share of time waiting for data', /^data_wait_ratio$/],
  ['Memory used', /^memory_/],
  ['Power, watts', /_watts$/],
  ['Temperature, °C', /_celsius$/],
  ['Use', /(busy|cpu)_ratio$/],
  ['Memory', /memory_used_bytes$/],
  ['Clock', /_hz$/],
]

/** Group series into panels: what shares an axis is drawn together, the rest on its own. */
export function group(names: string[]): Panel[] {
  const panels = new Map<string, string[]>()
  for (const name of names) {
    const title = PANELS.find(([, pattern]) => pattern.test(name))?.[0] ?? name
    panels.set(title, [...(panels.get(title) ?? []), name])
  }
  const order = (title: string): number => {
    const i = PANELS.findIndex(([known]) => known === title)
    return i < 0 ? 5.5 : i
  }
  return [...panels]
    .map(([title, members]) => ({ title, names: members.sort() }))
    .sort((a, b) => order(a.title) - order(b.title))
}

/** How a curve is drawn: name of a colour, and lengths of its dashes and gaps in pixels. */
export interface Look {
  colour: string
  dash: number[]
}

/** Each colour has its own line, so that curves differ in grey print and for the colour blind. */
const LOOKS: Look[] = [
  { colour: '--curve-1', dash: [] },
  { colour: '--curve-2', dash: [7, 3] },
  { colour: '--curve-3', dash: [2, 2] },
  { colour: '--curve-4', dash: [9, 3, 2, 3] },
  { colour: '--curve-5', dash: [4, 4] },
  { colour: '--curve-6', dash: [12, 4] },
]

export function lookOf(index: number): Look {
  return LOOKS[index % LOOKS.length]!
}

/** Looks of the curves of one panel: the first ones of training and validation look as in `curves.png`. */
export function looksOf(names: string[]): Look[] {
  const fixed = ['train/', 'val/'].map((split) => names.findIndex((name) => name.startsWith(split)))
  let next = fixed.every((place) => place < 0) ? 0 : fixed.length
  return names.map((_, i) => lookOf(fixed.includes(i) ? fixed.indexOf(i) : next++))
}
