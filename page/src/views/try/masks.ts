/** Masks of a segmenter, and of objects, over a picture. All are pure. */
import { classParts } from '../../lib/colours'
import { placeOf, resize } from '../../lib/resize'
import type { Box } from './boxes'
import type { Manifest } from './model'

/** Share of a class's colour in a pixel, as `redkiln.predict.masks.drawing` mixes them. */
const STRENGTH = 0.55
/** Smallest value, of 255, of a pixel that belongs to an object, as in `redkiln.predict.instances.regions`. */
const INSIDE = 128

export interface Share {
  name: string
  share: number
}

/**
 * Colour a picture (RGBA, in place) by the class of each pixel, and return the share of each class, the largest first.
 * The first class, which is the background, keeps its colours.
 */
export function colourMask(classes: Uint8Array, manifest: Manifest, picture: ImageData): Share[] {
  const names = manifest.classes ?? []
  const counts = names.map(() => 0)
  const colours = names.map((_, label) => classParts(label))
  eachPixel(manifest, picture, (at, place) => {
    const label = classes[place] ?? 0
    counts[label] = (counts[label] ?? 0) + 1
    if (label !== 0) mix(picture, at, colours[label])
  })
  return names
    .map((name, label) => ({ name, share: (counts[label] ?? 0) / (picture.width * picture.height) }))
    .filter((one) => one.share > 0)
    .sort((a, b) => b.share - a.share)
}

/**
 * Colour the pixels of objects in a picture (RGBA, in place), the first object on top.
 *
 * `masks` (M, T, T), with M objects, cover the model's whole square; a pixel of 255 is certain.
 */
export function colourObjects(masks: Uint8Array, boxes: Box[], manifest: Manifest, picture: ImageData): void {
  const { size = 0, mask_side: side = size } = manifest.preprocessing
  for (const box of boxes.toReversed()) {
    const data = masks.subarray(box.index * side * side, (box.index + 1) * side * side)
    const square = resize({ width: side, height: side, channels: 1, data }, size, size).data
    const colour = classParts(box.label)
    eachPixel(manifest, picture, (at, place) => {
      if ((square[place] ?? 0) >= INSIDE) mix(picture, at, colour)
    })
  }
}

/** Pass on each pixel of a picture: where its colour begins in the picture's data, and its place in the model's square. */
function eachPixel(manifest: Manifest, { width, height }: ImageData, act: (at: number, place: number) => void): void {
  const { size = 0, resize: how = 'pad' } = manifest.preprocessing
  const place = placeOf(width, height, size, how)
  for (let y = 0; y < height; y += 1) {
    const row = Math.min(size - 1, Math.floor(((y + 0.5) * place.height) / height + place.top))
    for (let x = 0; x < width; x += 1) {
      const column = Math.min(size - 1, Math.floor(((x + 0.5) * place.width) / width + place.left))
      act(4 * (y * width + x), row * size + column)
    }
  }
}

function mix({ data }: ImageData, at: number, colour: number[] | undefined): void {
  colour?.forEach((part, k) => (data[at + k] = (1 - STRENGTH) * (data[at + k] ?? 0) + STRENGTH * part))
}
