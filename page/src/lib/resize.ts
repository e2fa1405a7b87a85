/** Pictures as the models of this project expect them. All are pure.
 *
 * The resampling is Pillow's bilinear one: a triangle as wide as the reduction, first along the
 * rows and then along the columns, rounded to 8 bits after each. A browser's own scaling differs.
 */

export interface Pixels {
  width: number
  height: number
  channels: number
  data: Uint8Array | Uint8ClampedArray
}

export type Fit = 'stretch' | 'crop' | 'pad'

interface Taps {
  start: number
  weights: Float64Array
}

function taps(from: number, to: number, low: number, high: number): Taps[] {
  const scale = (high - low) / to
  const support = Math.max(1, scale)
  return Array.from({ length: to }, (_, i) => {
    const centre = low + (i + 0.5) * scale
    const start = Math.max(0, Math.trunc(centre - support + 0.5))
    const end = Math.min(from, Math.trunc(centre + support + 0.5))
    const weights = new Float64Array(end - start)
    let sum = 0
    for (let k = 0; k < weights.length; k += 1) {
      const distance = Math.abs((k + start - centre + 0.5) / support)
      weights[k] = Math.max(0, 1 - distance)
      sum += weights[k]!
    }
    for (let k = 0; k < weights.length; k += 1) weights[k]! /= sum
    return { start, weights }
  })
}

/** Part of an image: left, top, right and bottom, also between pixels. */
type Region = [number, number, number, number]

/** Scale pixels, or a part of them, to a size. */
export function resize(source: Pixels, width: number, height: number, part?: Region): Pixels {
  const { channels } = source
  const [left, top, right, bottom] = part ?? [0, 0, source.width, source.height]
  const wide = new Uint8ClampedArray(width * source.height * channels)
  taps(source.width, width, left, right).forEach(({ start, weights }, x) => {
    for (let y = 0; y < source.height; y += 1) {
      for (let c = 0; c < channels; c += 1) {
        let sum = 0
        for (let k = 0; k < weights.length; k += 1) {
          sum += weights[k]! * source.data[(y * source.width + start + k) * channels + c]!
        }
        wide[(y * width + x) * channels + c] = Math.floor(sum + 0.5)
      }
    }
  })
  const done = new Uint8ClampedArray(width * height * channels)
  taps(source.height, height, top, bottom).forEach(({ start, weights }, y) => {
    for (let i = 0; i < width * channels; i += 1) {
      let sum = 0
      for (let k = 0; k < weights.length; k += 1) sum += weights[k]! * wide[(start + k) * width * channels + i]!
      done[y * width * channels + i] = Math.floor(sum + 0.5)
    }
  })
  return { width, height, channels, data: done }
}

/** RGBA over black as RGB, or as grey by Pillow's weights. */
export function flatten(source: Pixels, channels: 1 | 3): Pixels {
  const count = source.width * source.height
  const data = new Uint8ClampedArray(count * channels)
  for (let i = 0; i < count; i += 1) {
    const opacity = source.data[4 * i + 3]! / 255
    const r = Math.round(source.data[4 * i]! * opacity)
    const g = Math.round(source.data[4 * i + 1]! * opacity)
    const b = Math.round(source.data[4 * i + 2]! * opacity)
    if (channels === 1) {
      data[i] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16
    } else {
      data[3 * i] = r
      data[3 * i + 1] = g
      data[3 * i + 2] = b
    }
  }
  return { width: source.width, height: source.height, channels, data }
}

/**
 * By how much Pillow reduces a JPEG while it decodes it: the largest of 8, 4 and 2 that leaves twice the pixels needed.
 * `redkiln.predict.pixels` asks for this with `draft`.
 */
export function reductionOf(width: number, height: number, size: number): number {
  const most = Math.min(Math.floor(width / (2 * size)), Math.floor(height / (2 * size)))
  return [8, 4, 2].find((factor) => factor <= most) ?? 1
}

/** The mean of each square of pixels, which is what a reduced JPEG has. */
export function reduce(source: Pixels, factor: number): Pixels {
  if (factor === 1) return source
  const { channels } = source
  const width = Math.ceil(source.width / factor)
  const height = Math.ceil(source.height / factor)
  const data = new Uint8ClampedArray(width * height * channels)
  for (let y = 0; y < height; y += 1) {
    const bottom = Math.min(source.height, (y + 1) * factor)
    for (let x = 0; x < width; x += 1) {
      const right = Math.min(source.width, (x + 1) * factor)
      const num = (bottom - y * factor) * (right - x * factor)
      for (let c = 0; c < channels; c += 1) {
        let sum = 0
        for (let v = y * factor; v < bottom; v += 1) {
          for (let u = x * factor; u < right; u += 1) sum += source.data[(v * source.width + u) * channels + c]!
        }
        data[(y * width + x) * channels + c] = Math.round(sum / num)
      }
    }
  }
  return { width, height, channels, data }
}

/** Where an image lies in a square: pixels of the square for one of the image, and its left and upper edge. */
export interface Place {
  width: number
  height: number
  left: number
  top: number
}

/** Python's `round`: halves become even. */
function round(value: number): number {
  const low = Math.floor(value)
  if (value - low !== 0.5) return Math.round(value)
  return low % 2 === 0 ? low : low + 1
}

/** The place of an image that is stretched, or fitted with black borders, in a square, as `redkiln.predict.fitting`. */
export function placeOf(width: number, height: number, size: number, how: Fit): Place {
  if (how === 'stretch' || width === height) return { width: size, height: size, left: 0, top: 0 }
  if (width > height) {
    const inner = Math.max(1, round((height / width) * size))
    return { width: size, height: inner, left: 0, top: round((size - inner) * 0.5) }
  }
  const inner = Math.max(1, round((width / height) * size))
  return { width: inner, height: size, left: round((size - inner) * 0.5), top: 0 }
}

/** Fit pixels to a square: stretched, its centre cut out, or with black borders. */
export function fit(source: Pixels, size: number, how: Fit): Pixels {
  if (how === 'stretch' || source.width === source.height) return resize(source, size, size)
  if (how === 'crop') {
    const side = Math.min(source.width, source.height)
    const left = (source.width - side) / 2
    const top = (source.height - side) / 2
    return resize(source, size, size, [left, top, left + side, top + side])
  }
  const place = placeOf(source.width, source.height, size, how)
  return paste(resize(source, place.width, place.height), size, place)
}

function paste(source: Pixels, size: number, { left, top }: Place): Pixels {
  const { channels } = source
  const data = new Uint8ClampedArray(size * size * channels)
  for (let y = 0; y < source.height; y += 1) {
    const row = source.data.subarray(y * source.width * channels, (y + 1) * source.width * channels)
    data.set(row, ((y + top) * size + left) * channels)
  }
  return { width: size, height: size, channels, data }
}

/** Pixels as (1, C, H, W) float32 in [0, 1]. */
export function toInput(source: Pixels): Float32Array<ArrayBuffer> {
  const plane = source.width * source.height
  const values = new Float32Array(plane * source.channels)
  for (let i = 0; i < plane; i += 1) {
    for (let c = 0; c < source.channels; c += 1) {
      values[c * plane + i] = source.data[i * source.channels + c]! / 255
    }
  }
  return values
}

/** Logits as probabilities. */
export function softmax(logits: ArrayLike<number>): number[] {
  const scaled = Array.from(logits)
  const most = Math.max(...scaled)
  const powers = scaled.map((value) => Math.exp(value - most))
  const sum = powers.reduce((a, b) => a + b, 0)
  return powers.map((value) => value / sum)
}
