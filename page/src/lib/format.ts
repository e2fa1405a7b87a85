/** Numbers, times and sizes as people read them. All are pure. */

const WHOLE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

/** `1,234`, `98.3`, `0.0123`, `1.2e-7`: four significant digits. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞'
  const size = Math.abs(value)
  if (size >= 1000) return WHOLE.format(value)
  if (size !== 0 && size < 1e-4) return value.toExponential(2)
  return String(Number(value.toPrecision(4)))
}

export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : WHOLE.format(value)
}

/** A metric by its name: accuracies and ratios in per cent. */
export function metric(name: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (isShare(name)) return percent(value)
  return number(value)
}

const TERMS: Record<string, string> = { lr: 'learning rate', train: 'training', val: 'validation', auc: 'AUC', f1: 'F1', iou: 'IoU', mae: 'MAE', map: 'mAP', miou: 'mIoU', r2: 'R²', rmse: 'RMSE' }

/** A metric in words: `Training loss` for `train/loss`, `Test macro F1` for `test/macro_f1_onnx`. */
export function metricTitle(name: string): string {
  const title = inWords(name)
  return title.charAt(0).toUpperCase() + title.slice(1)
}

/** A metric in words without its split: `macro F1` for `test/macro_f1_onnx`. */
export function metricName(name: string): string {
  return inWords(name.replace(/^test\//, ''))
}

function inWords(name: string): string {
  const words = name.replace(/_onnx$/, '').split(/[/_]/)
  return words.map((word) => TERMS[word] ?? word.replace(/^map(?=\d)/, 'mAP')).join(' ')
}

/** The headline of a result with its name, such as `mAP 93.1 %`; nothing without one. */
export function score(result: { headline?: string | null; metrics?: Record<string, number> } | null | undefined): string {
  const name = result?.headline
  return name ? `${metricName(name)} ${metric(name, result.metrics?.[name])}` : ''
}

/** The metric that a list shows of a result: its headline, or of a script the best known one. */
export function shownMetric(result: { headline?: string | null; metrics?: Record<string, number> } | null | undefined): string | null {
  if (result?.headline) return result.headline
  const names = Object.keys(result?.metrics ?? {}).sort()
  const held = names.filter((name) => /^(test|val|eval)/.test(name))
  const known = held.length > 0 ? held : names
  return known.find(isShare) ?? known[0] ?? null
}

export function isShare(name: string): boolean {
  return /accuracy|f1|auc|precision|recall|ratio|map(\d+|_\w+)?$|iou/.test(name)
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined ? '–' : `${(100 * share).toFixed(digits)} %`
}

/** `8 s`, `2 min 05 s`, `3 h 20 min`, `2 d 4 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–'
  if (seconds < 0.95) return `${Math.max(0, seconds).toFixed(1)} s`
  const total = Math.round(seconds)
  if (total < 60) return `${total} s`
  const pad = (value: number): string => String(value).padStart(2, '0')
  if (total < 3600) return `${Math.floor(total / 60)} min ${pad(total % 60)} s`
  if (total < 86_400) return `${Math.floor(total / 3600)} h ${pad(Math.floor(total / 60) % 60)} min`
  return `${Math.floor(total / 86_400)} d ${Math.floor(total / 3600) % 24} h`
}

/** `512 B`, `71.5 kB`, `1.2 GB`: powers of 1000, with some significant digits. */
export function bytes(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return '–'
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let amount = value
  let unit = 0
  while (Math.abs(amount) >= 999.5 && unit < units.length - 1) {
    amount /= 1000
    unit += 1
  }
  return `${unit === 0 ? amount : amount.toPrecision(digits)} ${units[unit]}`
}

/** How long ago: `just now`, `5 min ago`, `yesterday`; later the date. */
export function ago(at: string | null | undefined, now: number): string {
  if (!at) return '–'
  const seconds = (now - Date.parse(at)) / 1000
  if (seconds < 45) return 'just now'
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`
  if (seconds < 172_800) return 'yesterday'
  return date(at)
}

export function date(at: string): string {
  return new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
}

export function clock(at: string | number): string {
  return new Date(at).toLocaleTimeString('en-GB')
}

export function dateTime(at: string | null | undefined): string {
  return at ? `${date(at)}, ${clock(at)}` : '–'
}

/** Seconds from one time to another, or to now. */
export function between(start: string, end: string | null | undefined, now: number): number {
  return ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000
}

/** A message that begins in upper case, unless it begins with a name or with code. */
export function sentence(text: string): string {
  return /^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text
}

/** The parts of a message: text and what backticks enclose, alternately. */
export function codeParts(text: string): string[] {
  return text.split(/`([^`]+)`/)
}

/** `1 warning`, `2 warnings`. */
export function plural(num: number, word: string): string {
  return `${whole(num)} ${word}${num === 1 ? '' : 's'}`
}

/** `image-classification` as `image classification`. */
export function plain(name: string): string {
  return name.replaceAll('-', ' ').replaceAll('_', ' ')
}

/** Sizes of images, such as `160x128`, of which there may be others: their number and range. */
export function sizeRange(sizes: string[]): string {
  const known = sizes
    .filter((size) => /^\d+x\d+$/.test(size))
    .map((size) => size.split('x').map(Number) as [number, number])
    .sort((a, b) => a[0] * a[1] - b[0] * b[1])
  const [first, last] = [known[0], known.at(-1)]
  if (!first || !last) return '–'
  if (sizes.length === 1) return first.join(' × ')
  const others = sizes.length > known.length
  return `${others ? 'more than ' : ''}${known.length} sizes, ${others ? 'such as ' : ''}${first.join(' × ')} to ${last.join(' × ')}`
}

/** Whether a column has years, which are written without separators. */
export function isYear(column: string): boolean {
  return /(^|[^a-z])year$/i.test(column)
}

export function year(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : String(Math.round(value))
}
