/** Compares a model in this browser with the trained model's outputs on the samples that the job published. */
import { request } from '../../api/client'
import type { Artifact } from '../../api/types'
import { readNpz, type NamedArray } from '../../lib/npz'
import { toInput } from '../../lib/resize'
import type { Feed, Model } from './model'

export interface Parity {
  samples: number
  largest: number
}

const MOST_SAMPLES = 100
const NEAR = 1e-3

/** The largest difference of an output over the samples. Throws if the file has no samples. */
export async function compare(model: Model, file: Artifact): Promise<Parity> {
  const arrays = await readNpz(await (await request('get', file.url)).arrayBuffer())
  if (model.manifest.detection) return compareScores(model, arrays, model.manifest.detection.threshold)
  if (model.manifest.segmentation) return compareClasses(model, arrays)
  const expected = arrays[model.manifest.preprocessing.output]
  if (!expected) throw new Error('The job published no outputs to compare with.')
  const samples = Math.min(expected.shape[0] ?? 0, MOST_SAMPLES)
  const outputs = sizeOf(expected)
  let largest = 0
  for (let i = 0; i < samples; i += 1) {
    const { values } = await model.run(sampleOf(model, arrays, i))
    for (let k = 0; k < outputs; k += 1) {
      largest = Math.max(largest, Math.abs(values[k]! - Number(expected.data[i * outputs + k])))
    }
  }
  return { samples, largest }
}

/** The largest difference of a score. Boxes below the model's threshold are unknown here; those at it may be. */
async function compareScores(model: Model, arrays: Record<string, NamedArray>, threshold: number): Promise<Parity> {
  const { scores, images } = arrays
  if (!scores || !images) throw new Error('The job published no boxes to compare with.')
  const samples = Math.min(scores.shape[0] ?? 0, MOST_SAMPLES)
  let largest = 0
  for (let i = 0; i < samples; i += 1) {
    const found = await model.detect(pictureOf(model, images, i))
    rowOf(scores, i).map(Number).forEach((score, k) => {
      if (score >= threshold + NEAR) largest = Math.max(largest, Math.abs(score - found.scores[k]!))
    })
  }
  return { samples, largest }
}

/** The largest share of a sample's pixels that have another class. */
async function compareClasses(model: Model, arrays: Record<string, NamedArray>): Promise<Parity> {
  const { classes, images } = arrays
  if (!classes || !images) throw new Error('The job published no masks to compare with.')
  const samples = Math.min(classes.shape[0] ?? 0, MOST_SAMPLES)
  let largest = 0
  for (let i = 0; i < samples; i += 1) {
    const found = (await model.segment(pictureOf(model, images, i))).classes
    const others = rowOf(classes, i).filter((label, k) => Number(label) !== found[k]).length
    largest = Math.max(largest, others / sizeOf(classes))
  }
  return { samples, largest }
}

/** Elements of one sample. */
function sizeOf({ shape }: NamedArray): number {
  return shape.slice(1).reduce((a, b) => a * b, 1)
}

function sampleOf(model: Model, arrays: Record<string, NamedArray>, i: number): Feed[] {
  const { images, attention_mask: mask } = arrays
  if (images) return [pictureOf(model, images, i)]
  const length = mask && rowOf(mask, i).reduce<number>((sum, value) => sum + Number(value), 0)
  const { columns, inputs } = model.manifest.preprocessing
  const names = columns ? (inputs ?? []).map((input) => input.name) : model.session.inputNames
  return names.map((name) => {
    const array = arrays[name]
    if (!array) throw new Error(`The job published no samples of the input ${name}.`)
    const row = rowOf(array, i).slice(0, length)
    const isFloat = array.data instanceof Float32Array || array.data instanceof Float64Array
    const data = isFloat ? Float32Array.from(row, Number) : BigInt64Array.from(row, BigInt)
    return { name, data, shape: [1, row.length] }
  })
}

function rowOf(array: NamedArray, i: number): (number | bigint)[] {
  const size = sizeOf(array)
  return Array.from(array.data.subarray(i * size, (i + 1) * size) as ArrayLike<number | bigint>)
}

function pictureOf(model: Model, images: NamedArray, i: number): Feed {
  const [, height = 0, width = 0, channels = 1] = images.shape
  const size = height * width * channels
  const data = images.data.subarray(i * size, (i + 1) * size) as Uint8Array
  const name = model.manifest.preprocessing.input ?? 'images'
  return { name, data: toInput({ width, height, channels, data }), shape: [1, channels, height, width] }
}
