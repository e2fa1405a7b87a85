/** Whether the service answers. While it does not, the page shows what it last knew. */

const PROBE_MS = 1500

class Connection {
  isAway = $state(false)
  /** When the service last answered. */
  answeredAt = $state(Date.now())
  #timer: ReturnType<typeof setInterval> | undefined

  reached(): void {
    this.answeredAt = Date.now()
    if (!this.isAway) return
    this.isAway = false
    clearInterval(this.#timer)
    for (const wake of waiting.splice(0)) wake()
  }

  unreachable(): void {
    if (this.isAway) return
    this.isAway = true
    this.#timer = setInterval(() => void probe(), PROBE_MS)
  }
}

export const connection = new Connection()
const waiting: (() => void)[] = []

async function probe(): Promise<void> {
  if (document.hidden) return
  try {
    const answer = await fetch('/healthz', { cache: 'no-store' })
    if (answer.ok) connection.reached()
  } catch {
    // still away: the next probe follows
  }
}

export function reached(): void {
  connection.reached()
}

export function unreachable(): void {
  connection.unreachable()
}

/** Run a function when the service answers again. */
export function onceBack(wake: () => void): void {
  waiting.push(wake)
}
