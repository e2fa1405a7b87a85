/** Server-sent events over fetch: resumable by `Last-Event-ID`, with any event name.
 *
 * `EventSource` would need the names of all events, cannot say why it failed, and keeps one of the
 * browser's six connections in every hidden tab. This stream closes while the tab is hidden.
 */
import { reached, unreachable } from '../lib/connection.svelte'
import { sessionEnded } from '../lib/session.svelte'

export interface StreamEvent {
  id: string | null
  name: string
  data: string
}

export interface StreamOptions {
  onEvent: (event: StreamEvent) => void
  /** Called when the service refuses the stream with this status; the stream then ends. */
  onRefused?: (status: number) => void
  /** Name of the event after which the stream is complete. */
  endsWith?: string
  lastId?: string
}

const SILENCE_MS = 40_000
const RETRY_MS = [300, 1000, 2000, 4000]

/** Follow a stream until the returned function is called. */
export function follow(url: string, options: StreamOptions): () => void {
  let lastId = options.lastId ?? ''
  let isClosed = false
  let failures = 0
  let abort: AbortController | null = null
  let timer: ReturnType<typeof setTimeout> | undefined

  async function connect(): Promise<void> {
    if (isClosed || document.hidden || abort !== null) return
    const controller = new AbortController()
    abort = controller
    let isComplete = false
    try {
      isComplete = await read(controller)
    } catch {
      if (!controller.signal.aborted || controller.signal.reason === 'silence') unreachable()
    }
    if (abort === controller) abort = null
    if (isComplete) close()
    else retry()
  }

  async function read(controller: AbortController): Promise<boolean> {
    const headers: Record<string, string> = { accept: 'text/event-stream' }
    if (lastId !== '') headers['last-event-id'] = lastId
    const response = await fetch(url, { headers, signal: controller.signal, cache: 'no-store' })
    if (!response.ok || response.body === null) {
      if (response.status >= 500) throw new Error(response.statusText)
      if (response.status === 401) sessionEnded()
      options.onRefused?.(response.status)
      return true
    }
    reached()
    const parser = new StreamParser()
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      const watch = setTimeout(() => controller.abort('silence'), SILENCE_MS)
      const { done, value } = await reader.read().finally(() => clearTimeout(watch))
      if (done) {
        unreachable()
        return false
      }
      failures = 0
      reached()
      for (const event of parser.push(value)) {
        if (event.id !== null) lastId = event.id
        options.onEvent(event)
        if (event.name === options.endsWith) {
          controller.abort('complete')
          return true
        }
      }
    }
  }

  function retry(): void {
    if (isClosed || document.hidden) return
    const pause = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]
    failures += 1
    clearTimeout(timer)
    timer = setTimeout(() => void connect(), pause)
  }

  function onVisibility(): void {
    if (document.hidden) abort?.abort('hidden')
    else void connect()
  }

  function close(): void {
    isClosed = true
    clearTimeout(timer)
    abort?.abort('closed')
    document.removeEventListener('visibilitychange', onVisibility)
  }

  document.addEventListener('visibilitychange', onVisibility)
  void connect()
  return close
}

/** Splits the text of a stream into events, whatever the sizes of its pieces. */
export class StreamParser {
  #rest = ''

  push(text: string): StreamEvent[] {
    const blocks = (this.#rest + text).split('\n\n')
    this.#rest = blocks.pop() ?? ''
    return blocks.map(parseBlock).filter((event) => event !== null)
  }
}

function parseBlock(block: string): StreamEvent | null {
  const event: StreamEvent = { id: null, name: 'message', data: '' }
  const data: string[] = []
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'id') event.id = value
    else if (field === 'event') event.name = value
    else if (field === 'data') data.push(value)
  }
  if (data.length === 0) return null
  event.data = data.join('\n')
  return event
}
