/** Requests to `/v1`, typed by the OpenAPI document, with one kind of error. */
import { reached, unreachable } from '../lib/connection.svelte'
import { csrfToken, sessionEnded } from '../lib/session.svelte'
import type { paths } from './schema'

export interface Fault {
  pointer?: string
  parameter?: string
  code: string
  message: string
}

/** An answer that is an error: what the service said, or that it did not answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: Fault[] = [],
    readonly requestId: string | null = null,
  ) {
    super(detail)
  }

  /** Whether the service could not be reached or is starting; the same request may work later. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504
  }
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Operation<P extends keyof paths, M extends Method> = paths[P][M]
type Json<R> = R extends { content: infer Bodies } ? Bodies[keyof Bodies & ('application/json' | 'application/schema+json')] : undefined
/** The body of the operation's successful answers; two hundreds of one operation agree. */
type Answer<O> = O extends { responses: infer R } ? Known<Json<R[keyof R & (200 | 201 | 202)]>> : undefined
type Known<T> = [Exclude<T, undefined>] extends [never] ? undefined : Exclude<T, undefined>
type Query<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never

export interface Options<O> {
  path?: Record<string, string>
  query?: Partial<Query<O>>
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Send a request and return the parsed answer. Throws `Problem`. */
export async function call<M extends Method, P extends keyof paths & string>(
  method: M,
  path: P,
  options: Options<Operation<P, M>> = {},
): Promise<Answer<Operation<P, M>>> {
  const response = await request(method, fill(path, options.path, options.query), {
    body: options.body,
    headers: options.headers,
    signal: options.signal,
  })
  if (response.status === 204) return undefined as Answer<Operation<P, M>>
  return (await response.json()) as Answer<Operation<P, M>>
}

/** Fill the placeholders of a path and append the query. */
export function fill(
  path: string,
  values: Record<string, string> = {},
  query: Record<string, unknown> = {},
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? ''),
  )
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== '') search.append(name, String(item))
    }
  }
  return search.size > 0 ? `${filled}?${search}` : filled
}

/** Send a request to a path as it is, and return a successful response. Throws `Problem`. */
export async function request(
  method: string,
  url: string,
  options: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> {
  const headers = new Headers(options.headers)
  if (options.body !== undefined && !headers.has('content-type')) {
    headers.set('content-type', 'application/json')
  }
  const token = csrfToken()
  if (token !== null && method !== 'get') headers.set('redkiln-csrf', token)
  let response: Response
  try {
    response = await fetch(url, {
      method: method.toUpperCase(),
      headers,
      body: options.body === undefined || options.body instanceof Blob ? options.body : JSON.stringify(options.body),
      signal: options.signal,
    })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    unreachable()
    throw new Problem(0, 'unreachable', 'The service does not answer.')
  }
  if (response.ok || response.status === 304) {
    reached()
    return response
  }
  const problem = await readProblem(response)
  if (problem.isAway) unreachable()
  else reached()
  if (problem.status === 401) sessionEnded()
  throw problem
}

async function readProblem(response: Response): Promise<Problem> {
  const text = await response.text()
  try {
    const body = JSON.parse(text)
    const { code, detail, title, errors, request_id } = body
    return new Problem(response.status, code, detail || title, errors ?? [], request_id)
  } catch {
    return new Problem(response.status, 'no_problem', text.slice(0, 500) || response.statusText)
  }
}

/** What an error says, for people. */
export function words(error: unknown): string {
  if (error instanceof Error) return error.message
  return String(error)
}
