/** Decodes and prepares pictures outside the main thread, so that a large photo does not stop the page. */
import { fit, flatten, reduce, reductionOf, toInput, type Fit } from '../../lib/resize'

/** A picture to prepare, and the input that the model expects. */
export interface Order {
  source: Blob | ImageBitmap
  size: number
  resize: Fit
  channels: 1 | 3
  /** Longest side of the picture to show, in pixels. */
  shownSide: number
}

/** A model's input, the size of the upright picture, and a smaller one to show, as RGBA. */
export interface Prepared {
  input: Float32Array<ArrayBuffer>
  width: number
  height: number
  shown: ImageData
}

export type Reply = { prepared: Prepared } | { fault: string; isUnreadable: boolean }

const JPEG = [0xff, 0xd8, 0xff]

self.onmessage = (event: MessageEvent<Order>) => {
  prepare(event.data).then(
    (prepared) => send({ prepared }, [prepared.input.buffer, prepared.shown.data.buffer]),
    (cause: unknown) => send({ fault: String(cause), isUnreadable: cause instanceof DOMException }),
  )
}

function send(reply: Reply, transfer: Transferable[] = []): void {
  self.postMessage(reply, { transfer })
}

async function prepare({ source, size, resize, channels, shownSide }: Order): Promise<Prepared> {
  const bitmap = source instanceof Blob ? await createImageBitmap(source, { colorSpaceConversion: 'none' }) : source
  const { width, height } = bitmap
  const raw = draw(bitmap, width, height)
  const share = Math.min(1, shownSide / Math.max(width, height))
  const shown = draw(bitmap, Math.max(1, Math.round(width * share)), Math.max(1, Math.round(height * share)))
  bitmap.close()
  const factor = (await isJpeg(source)) ? reductionOf(width, height, size) : 1
  const pixels = reduce({ width, height, channels: 4, data: raw.data }, factor)
  return { input: toInput(fit(flatten(pixels, channels), size, resize)), width, height, shown }
}

function draw(bitmap: ImageBitmap, width: number, height: number): ImageData {
  const context = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })
  if (!context) throw new Error('The browser cannot draw.')
  context.imageSmoothingQuality = 'high'
  context.drawImage(bitmap, 0, 0, width, height)
  return context.getImageData(0, 0, width, height)
}

async function isJpeg(source: Blob | ImageBitmap): Promise<boolean> {
  if (!(source instanceof Blob)) return false
  const start = new Uint8Array(await source.slice(0, JPEG.length).arrayBuffer())
  return JPEG.every((byte, i) => start[i] === byte)
}
