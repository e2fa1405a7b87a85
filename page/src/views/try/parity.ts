/** Compares a model in this browser with PyTorch's outputs on the samples that the job published. */
import { request } from '../../api/client'
import type { Artifact } from '../../api/types'
import { readNpz } from '../../lib/npz'
import { toInput } from '../../lib/resize'
import type { Model } from './model'

export interface Parity {
  samples: number
  largest: number
}

const MOST_SAMPLES = 100

/** The largest difference of an output over the samples. Throws if the file has no images. */
export async function compare(model: Model, file: Artifact): Promise<Parity> {
  const arrays = await readNpz(await (await request('get', file.url)).arrayBuffer())
  const { images, logits } = arrays
  if (!images || !logits || !(images.data instanceof Uint8Array)) throw new Error('The job published no images to compare with.')
  const [count = 0, height = 0, width = 0, channels = 1] = images.shape
  const outputs = logits.shape[1] ?? 1
  const samples = Math.min(count, MOST_SAMPLES)
  const size = height * width * channels
  const name = model.manifest.preprocessing.input ?? 'images'
  let largest = 0
  for (let i = 0; i < samples; i += 1) {
    const pixels = { width, height, channels, data: images.data.subarray(i * size, (i + 1) * size) }
    const { values } = await model.run([{ name, data: toInput(pixels), shape: [1, channels, height, width] }])
    for (let k = 0; k < outputs; k += 1) {
      largest = Math.max(largest, Math.abs(values[k]! - Number(logits.data[i * outputs + k])))
    }
  }
  return { samples, largest }
}
