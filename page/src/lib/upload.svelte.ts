/** One upload of a data set: its progress, and a way to cancel it. */
import { Problem } from '../api/client'
import type { Dataset } from '../api/types'
import { csrfToken } from './session.svelte'

export class Upload {
  sent = $state(0)
  total = $state(0)
  #request = new XMLHttpRequest()

  /** Send the bytes; fetch cannot report the progress of a body. Throws `Problem`. */
  send(url: string, body: Blob, type: string): Promise<Dataset> {
    const request = this.#request
    this.total = body.size
    return new Promise((resolve, reject) => {
      request.open('POST', url)
      request.setRequestHeader('content-type', type)
      const token = csrfToken()
      if (token !== null) request.setRequestHeader('redkiln-csrf', token)
      request.upload.onprogress = (event) => (this.sent = event.loaded)
      request.onload = () => {
        const answer: unknown = JSON.parse(request.responseText || '{}')
        if (request.status < 300) resolve(answer as Dataset)
        else {
          const { code, detail, errors } = answer as { code: string; detail: string; errors: [] }
          reject(new Problem(request.status, code, detail, errors))
        }
      }
      request.onerror = () => reject(new Problem(0, 'unreachable', 'The connection broke during the upload.'))
      request.onabort = () => reject(new DOMException('cancelled', 'AbortError'))
      request.send(body)
    })
  }

  cancel(): void {
    this.#request.abort()
  }
}
