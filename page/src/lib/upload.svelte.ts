/** An upload of a data set in parts: it continues after a break, and sends nothing twice. */
import { sha256 } from '@noble/hashes/sha2.js'
import { call, fill, Problem, request } from '../api/client'
import type { Dataset } from '../api/types'
import { connection, onceBack } from './connection.svelte'
import type { Options } from './tableoptions'

type State = 'reading' | 'sending' | 'waiting'

const READ_BYTES = 1 << 20
/** A browser has six connections to a service; streams and the rest of the page need some. */
const PARALLEL = 3
const PAUSE_MS = 1000

export class Upload {
  /** Whether the file is read for its digest, is sent, or waits for the service. */
  state = $state<State>('reading')
  done = $state(0)
  readonly total: number
  #abort = new AbortController()

  constructor(readonly body: Blob) {
    this.total = body.size
  }

  /** Send what the service lacks. Throws `Problem`, and `AbortError` if it was cancelled. */
  async send(fields: { name: string; target?: string } & Options): Promise<Dataset> {
    const order = { ...fields, sha256: await this.#digest(), size_bytes: this.total }
    for (;;) {
      try {
        return await this.#try(order)
      } catch (cause) {
        // 404: the upload has ended; if an answer was lost, it may be a data set already.
        const mayContinue = cause instanceof Problem && (cause.isAway || cause.status === 404)
        if (!mayContinue) throw cause
        this.state = 'waiting'
        await this.#unlessCancelled(untilBack())
      }
    }
  }

  cancel(): void {
    this.#abort.abort()
  }

  async #try(order: object): Promise<Dataset> {
    const { signal } = this.#abort
    const upload = await call('post', '/v1/uploads', { body: order, signal })
    if (upload.dataset) return upload.dataset
    const id = upload.id ?? ''
    const received = new Set(upload.received)
    const missing = Array.from({ length: upload.num_parts }, (_, i) => i).filter((i) => !received.has(i))
    this.state = 'sending'
    this.done = this.total - missing.reduce((sum, i) => sum + this.#part(i, upload.part_bytes).size, 0)
    const sender = async (): Promise<void> => {
      for (let i = missing.shift(); i !== undefined; i = missing.shift()) {
        const part = this.#part(i, upload.part_bytes)
        await put(id, i, part, signal).catch((cause) => {
          missing.length = 0 // the other senders stop after their parts
          throw cause
        })
        this.done += part.size
      }
    }
    // A part that is under way ends before the next try, which would send it again.
    const ends = await Promise.allSettled(Array.from({ length: PARALLEL }, sender))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
    return call('post', '/v1/uploads/{upload_id}/finish', { path: { upload_id: id }, signal })
  }

  /** Wait for a promise; throw `AbortError` as soon as the upload is cancelled. */
  async #unlessCancelled(promise: Promise<void>): Promise<void> {
    const { signal } = this.#abort
    signal.throwIfAborted()
    const cancelled = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    await Promise.race([promise, cancelled])
  }

  #part(number: number, size: number): Blob {
    return this.body.slice(number * size, (number + 1) * size)
  }

  async #digest(): Promise<string> {
    const hash = sha256.create()
    for (let at = 0; at < this.total; at += READ_BYTES) {
      hash.update(new Uint8Array(await this.body.slice(at, at + READ_BYTES).arrayBuffer()))
      this.done = Math.min(this.total, at + READ_BYTES)
      this.#abort.signal.throwIfAborted()
    }
    return [...hash.digest()].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  }
}

async function untilBack(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  if (connection.isAway) await new Promise<void>(onceBack)
}

async function put(id: string, number: number, part: Blob, signal: AbortSignal): Promise<void> {
  const digest = sha256(new Uint8Array(await part.arrayBuffer()))
  const headers = {
    'content-type': 'application/octet-stream',
    'content-digest': `sha-256=:${btoa(String.fromCharCode(...digest))}:`,
  }
  const url = fill('/v1/uploads/{upload_id}/parts/{number}', { upload_id: id, number: String(number) })
  await request('put', url, { body: part, headers, signal })
}
