/** Who uses the page. Without keys there is nothing to do; else a cookie that scripts cannot read. */

import type { components } from '../api/schema'

export type Session = components['schemas']['SessionState']

class SessionState {
  current = $state<Session | null>(null)
  hasEnded = $state(false)

  get needsLogin(): boolean {
    return this.hasEnded || (this.current?.login_required === true && !this.current.caller)
  }
}

export const session = new SessionState()

export function csrfToken(): string | null {
  return session.current?.csrf_token ?? null
}

export function sessionEnded(): void {
  session.hasEnded = true
}
