/** An exported model in the browser, on WebAssembly and, as an option, also on WebGPU. */
import type * as ort from 'onnxruntime-web/wasm'
import { request } from '../../api/client'
import type { Artifact } from '../../api/types'

export interface ColumnInput {
  name: string
  dtype: string
  columns?: string[]
  mean?: number[]
  missing_numbers?: number[]
  categories?: Record<string, string[]>
  derived?: Record<string, Origin>
}

/** The origin of a number that the user's table does not have, as `redkiln.tables.Derived`. */
export interface Origin {
  column: string
  part: string
  word?: string | null
  since?: string | null
}

export interface Manifest {
  task: string
  classes: string[] | null
  /** Probability from which each class is a label, if a sample can have several. */
  thresholds?: number[]
  /** How a detector chooses boxes. */
  detection?: { threshold: number; most_boxes: number }
  /** What the masks of a segmenter mean. */
  segmentation?: { ignored: number }
  model: { inputs: { name: string; shape: (string | number)[] }[]; outputs: { name: string }[] }
  preprocessing: {
    input?: string
    output: string
    /** Outputs of a detector: boxes, scores and labels. */
    outputs?: string[]
    size?: number
    /** Side of the masks of a model that finds the pixels of each object. */
    mask_side?: number
    resize?: 'stretch' | 'crop' | 'pad'
    channel_order?: string
    /** Inputs of a table; of texts their names. */
    inputs?: ColumnInput[]
    /** Names of the inputs by column, of a model that reads columns. */
    columns?: Record<string, string>
    tokenizer?: string
    max_length?: number
    target?: string
  }
}

export interface Feed {
  name: string
  data: Float32Array | BigInt64Array
  shape: number[]
}

/** What a detector found in one picture; boxes are left, top, right and bottom in pixels of its input. */
export interface Found {
  boxes: Float32Array
  scores: Float32Array
  labels: BigInt64Array
  /** The pixels of each object, if the model finds them: (M, T, T) over its whole square. */
  masks?: Uint8Array
  ms: number
  gpu?: Difference
}

/** One of the programs that run models. */
export interface Runtime extends Pick<typeof ort, 'InferenceSession' | 'Tensor'> {
  provider: 'wasm' | 'webgpu'
}

type Outputs = ort.InferenceSession.OnnxValueMapType

/** WebGPU next to WebAssembly on the same input: the largest difference of an output, and the milliseconds it took. */
export interface Difference {
  largest: number
  ms: number
}

export class Model {
  /** The same model on WebGPU, which then runs on each input too. */
  twin: Model | null = null

  private constructor(
    readonly manifest: Manifest,
    readonly session: ort.InferenceSession,
    private readonly runtime: Runtime,
    readonly loadedMs: number,
  ) {}

  /** Download and open a model. */
  static async open(files: Artifact[], model: Artifact, runtime: Runtime): Promise<Model> {
    const manifest = files.find((file) => file.kind === 'manifest')
    if (!manifest) throw new Error('The job has no manifest, which says how inputs are prepared. If a script wrote the model, download it and run it with ONNX Runtime.')
    const facts = (await (await request('get', manifest.url)).json()) as Manifest
    const bytes = new Uint8Array(await (await request('get', model.url)).arrayBuffer())
    const start = performance.now()
    // Errors alone: it warns that a detector's threshold has a default.
    const options: ort.InferenceSession.SessionOptions = { executionProviders: [runtime.provider], logSeverityLevel: 3 }
    const session = await runtime.InferenceSession.create(bytes, options)
    const isHalf = session.inputMetadata.some((input) => input.isTensor && input.type === 'float16')
    if (isHalf) throw new Error('This file has inputs in float16, which the page cannot make. Choose another variant.')
    return new Model(facts, session, runtime, performance.now() - start)
  }

  /** Run the model on named inputs; the values of its output and the milliseconds it took. */
  async run(feeds: Feed[]): Promise<{ values: Float32Array; ms: number; gpu?: Difference }> {
    const { outputs, ms, gpu } = await this.runBoth(feeds)
    const output = outputs[this.manifest.preprocessing.output] ?? Object.values(outputs)[0]
    return { values: output?.data as Float32Array, ms, gpu }
  }

  /** Find the objects of one picture, with the model's own threshold. */
  async detect(feed: Feed): Promise<Found> {
    const { outputs, ms, gpu } = await this.runBoth([feed])
    return {
      boxes: outputs.boxes?.data as Float32Array,
      scores: outputs.scores?.data as Float32Array,
      labels: outputs.labels?.data as BigInt64Array,
      masks: outputs.masks?.data as Uint8Array | undefined,
      ms,
      gpu,
    }
  }

  /** The class of each pixel of one picture. */
  async segment(feed: Feed): Promise<{ classes: Uint8Array; ms: number; gpu?: Difference }> {
    const { outputs, ms, gpu } = await this.runBoth([feed])
    return { classes: outputs.classes?.data as Uint8Array, ms, gpu }
  }

  private async runBoth(feeds: Feed[]): Promise<{ outputs: Outputs; ms: number; gpu?: Difference }> {
    const own = await this.runAll(feeds)
    if (!this.twin) return own
    await this.twin.runAll(feeds) // the first run of a shape compiles its shaders
    const other = await this.twin.runAll(feeds)
    return { ...own, gpu: { largest: largestDifference(own.outputs, other.outputs), ms: other.ms } }
  }

  private async runAll(feeds: Feed[]): Promise<{ outputs: Outputs; ms: number }> {
    const columns = this.manifest.preprocessing.columns
    const inputs = columns
      ? this.columnsOf(feeds, columns)
      : Object.fromEntries(feeds.map((feed) => [feed.name, this.tensorOf(feed)]))
    const start = performance.now()
    const outputs = await this.session.run(inputs)
    return { outputs, ms: performance.now() - start }
  }

  /** One row becomes an input for each column, for a model that reads columns. */
  private columnsOf(feeds: Feed[], columns: Record<string, string>): Record<string, ort.Tensor> {
    const found: Record<string, ort.Tensor> = {}
    for (const { name, data } of feeds) {
      const part = this.manifest.preprocessing.inputs?.find((one) => one.name === name)
      part?.columns?.forEach((column, place) => {
        const categories = part.categories?.[column]
        const value = data[place] ?? NaN
        found[columns[column] ?? column] = categories
          ? new this.runtime.Tensor('string', [categories[Number(value)] ?? ''], [1])
          : new this.runtime.Tensor('float32', Float32Array.of(Number(value)), [1])
      })
    }
    return found
  }

  /** Pixels from 0 to 1 become bytes, channels last, for a model that prepares photos itself. */
  private tensorOf({ name, data, shape }: Feed): ort.Tensor {
    if (!(data instanceof Float32Array)) return new this.runtime.Tensor('int64', data, shape)
    const input = this.session.inputMetadata.find((one) => one.name === name)
    if (!input?.isTensor || input.type !== 'uint8') return new this.runtime.Tensor('float32', data, shape)
    const [batch = 1, channels = 1, height = 1, width = 1] = shape
    const plane = height * width
    const bytes = new Uint8Array(data.length)
    for (let i = 0; i < data.length; i += 1) {
      const sample = Math.floor(i / (channels * plane))
      const channel = Math.floor(i / plane) % channels
      bytes[(sample * plane + (i % plane)) * channels + channel] = Math.round(data[i]! * 255)
    }
    return new this.runtime.Tensor('uint8', bytes, [batch, height, width, channels])
  }

  async close(): Promise<void> {
    await this.twin?.close()
    await this.session.release()
  }
}

/** The largest difference between two runs over all numbers of all outputs. */
function largestDifference(ones: Outputs, others: Outputs): number {
  let largest = 0
  for (const [name, one] of Object.entries(ones)) {
    const other = others[name]?.data as ArrayLike<number | bigint>
    const values = one.data as ArrayLike<number | bigint>
    for (let i = 0; i < values.length; i += 1) largest = Math.max(largest, Math.abs(Number(values[i]) - Number(other[i])))
  }
  return largest
}
