/** Pictures as inputs of a model, prepared one after the other in a worker. */
import type { Manifest } from './model'
import type { Order, Prepared, Reply } from './photos.worker'

/** Longest side of a picture that is shown with boxes or masks, and of one beside its answers, in pixels. */
const DRAWN_SIDE = 1024
const SMALL_SIDE = 256
const DEFAULT_SIZE = 224
export const UNREADABLE =
  'this browser cannot read it. It reads JPEG, PNG, WebP, GIF and BMP. For other formats, such as TIFF, use `redkiln predict`.'

export class Photos {
  #worker = new Worker(new URL('./photos.worker.ts', import.meta.url), { type: 'module' })
  #last: Promise<unknown> = Promise.resolve()

  /** Prepare a picture as the manifest says. Throws if the browser cannot read it. */
  prepare(source: Blob | ImageBitmap, manifest: Manifest): Promise<Prepared> {
    const { size = DEFAULT_SIZE, resize = 'stretch', channel_order: order } = manifest.preprocessing
    const shownSide = manifest.detection || manifest.segmentation ? DRAWN_SIDE : SMALL_SIDE
    const wanted: Order = { source, size, resize, channels: order === 'grey' ? 1 : 3, shownSide }
    const next = this.#last.then(() => this.#ask(wanted))
    this.#last = next.catch(() => undefined)
    return next
  }

  close(): void {
    this.#worker.terminate()
  }

  #ask(order: Order): Promise<Prepared> {
    return new Promise((resolve, reject) => {
      this.#worker.onmessage = ({ data }: MessageEvent<Reply>) => {
        if ('prepared' in data) resolve(data.prepared)
        else reject(new Error(data.isUnreadable ? UNREADABLE : data.fault))
      }
      this.#worker.onerror = (event) => reject(new Error(event.message || 'The worker that prepares pictures failed.'))
      this.#worker.postMessage(order, order.source instanceof ImageBitmap ? [order.source] : [])
    })
  }
}

/** The address of a picture, for an `img`. Revoke it when the picture is gone. */
export async function addressOf(picture: ImageData): Promise<string> {
  const canvas = new OffscreenCanvas(picture.width, picture.height)
  canvas.getContext('2d')?.putImageData(picture, 0, 0)
  return URL.createObjectURL(await canvas.convertToBlob())
}
