/** Boxes of a detector in pixels of the picture. All are pure. */
import { placeOf } from '../../lib/resize'
import type { Found, Manifest } from './model'

export interface Box {
  /** Place among all that the model found. */
  index: number
  name: string
  label: number
  score: number
  left: number
  top: number
  width: number
  height: number
}

/** The boxes in a picture of a size; those beside it are left out. */
export function boxesOf(found: Found, manifest: Manifest, width: number, height: number): Box[] {
  const { size = 0, resize = 'pad' } = manifest.preprocessing
  const place = placeOf(width, height, size, resize)
  const across = (x: number) => Math.min(width, Math.max(0, ((x - place.left) * width) / place.width))
  const down = (y: number) => Math.min(height, Math.max(0, ((y - place.top) * height) / place.height))
  const boxes: Box[] = []
  found.labels.forEach((one, i) => {
    const label = Number(one)
    const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = found.boxes.subarray(4 * i, 4 * i + 4)
    const box = { left: across(x0), top: down(y0), width: across(x1) - across(x0), height: down(y1) - down(y0) }
    if (label < 0 || box.width <= 0 || box.height <= 0) return
    boxes.push({ index: i, name: manifest.classes?.[label] ?? String(label), label, score: found.scores[i] ?? 0, ...box })
  })
  return boxes
}
