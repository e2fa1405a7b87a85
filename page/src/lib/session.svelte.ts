/** Who uses the page. Without keys there is nothing to do; else a cookie that scripts cannot read. */

export interface Session {
  login_required: boolean
  caller: { id: string; scope: string; name: string } | null
  csrf_token: string | null
  expires_at: string | null
}

class SessionState {
  current = $state<Session | null>(null)
  hasEnded = $state(false)

  get needsLogin(): boolean {
    return this.hasEnded || (this.current?.login_required === true && this.current.caller === null)
  }
}

export const session = new SessionState()

export function csrfToken(): string | null {
  return session.current?.csrf_token ?? null
}

export function sessionEnded(): void {
  session.hasEnded = true
}
