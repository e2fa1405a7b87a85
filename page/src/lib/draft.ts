/** A text that is not sent yet: in the address, so that it can be kept and sent to others, and in
 * the tab, which also has what was typed last, and keeps it while other views are open.
 */

const KEY = 'redkiln-unsent'

/** A draft for one address of the page; another job's clone has its own. */
export class Draft {
  #key: string

  constructor(address: string) {
    this.#key = `${KEY}:${address}`
  }

  /** The text that was typed before, or that of the address; null if there is none. */
  load(): string | null {
    const saved = JSON.parse(sessionStorage.getItem(this.#key) ?? '{}') as { text?: string; hash?: string }
    // A link with another text is newer than what was typed in this tab.
    const isOvertaken = location.hash !== '' && location.hash !== saved.hash
    return isOvertaken ? textOfAddress() : (saved.text ?? null)
  }

  /** Save in the tab; `publish` puts it into the address, which browsers allow only now and then. */
  save(text: string): void {
    sessionStorage.setItem(this.#key, JSON.stringify({ text, hash: location.hash }))
  }

  /** Put the text into the address's fragment, which is not sent to the service nor logged there. */
  publish(text: string): void {
    replaceHash(`#${new URLSearchParams({ spec: text }).toString()}`)
    this.save(text)
  }

  clear(): void {
    sessionStorage.removeItem(this.#key)
  }

  /** Forget the text, also in the address. */
  unpublish(): void {
    this.clear()
    replaceHash('')
  }
}

/** The text in the address; null if there is none. */
export function textOfAddress(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get('spec')
}

function replaceHash(hash: string): void {
  if (hash !== location.hash) history.replaceState(null, '', location.pathname + location.search + hash)
}
