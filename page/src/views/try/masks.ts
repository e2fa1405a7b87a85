/** Masks of a segmenter over a picture. All are pure. */
import { classParts } from '../../lib/colours'
import { placeOf } from '../../lib/resize'
import type { Manifest } from './model'

/** Share of a class's colour in a pixel, as `redkiln.predict.masks.drawing` mixes them. */
const STRENGTH = 0.55

export interface Share {
  name: string
  share: number
}

/**
 * Colour a picture (RGBA, in place) by the class of each pixel, and return the share of each class, the largest first.
 * The first class, which is the background, keeps its colours.
 */
export function colourMask(classes: Uint8Array, manifest: Manifest, picture: ImageData): Share[] {
  const { size = 0, resize = 'pad' } = manifest.preprocessing
  const { width, height, data } = picture
  const place = placeOf(width, height, size, resize)
  const names = manifest.classes ?? []
  const counts = names.map(() => 0)
  const colours = names.map((_, label) => classParts(label))
  for (let y = 0; y < height; y += 1) {
    const row = Math.min(size - 1, Math.floor(((y + 0.5) * place.height) / height + place.top))
    for (let x = 0; x < width; x += 1) {
      const column = Math.min(size - 1, Math.floor(((x + 0.5) * place.width) / width + place.left))
      const label = classes[row * size + column] ?? 0
      counts[label] = (counts[label] ?? 0) + 1
      const colour = colours[label]
      if (label === 0 || !colour) continue
      const at = 4 * (y * width + x)
      colour.forEach((part, k) => (data[at + k] = (1 - STRENGTH) * (data[at + k] ?? 0) + STRENGTH * part))
    }
  }
  return names
    .map((name, label) => ({ name, share: (counts[label] ?? 0) / (width * height) }))
    .filter((one) => one.share > 0)
    .sort((a, b) => b.share - a.share)
}
