/** A text that is not sent yet. It survives a reload of its tab, and is gone when the tab is closed. */

const KEY = 'redkiln-draft'

/** A draft for one address of the page; another job's clone has its own. */
export class Draft {
  #key: string

  constructor(address: string) {
    this.#key = `${KEY}:${address}`
  }

  /** The text that was typed before; null if there is none. */
  load(): string | null {
    return sessionStorage.getItem(this.#key)
  }

  save(text: string): void {
    sessionStorage.setItem(this.#key, text)
  }

  clear(): void {
    sessionStorage.removeItem(this.#key)
  }
}
