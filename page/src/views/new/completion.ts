/** What may be written at a place of a spec in YAML, from the task's JSON schema. All are pure. */

type Json = Record<string, unknown>

export interface Place {
  /** The keys above the cursor. Items of lists have the path of their list. */
  path: string[]
  /** The key whose value is being typed; null where a key is typed. */
  key: string | null
  /** What has been typed of the key or the value. */
  typed: string
}

export interface Suggestion {
  label: string
  kind: 'property' | 'value'
  /** Whether what follows is on lines of its own: an object or a list. */
  isBlock: boolean
  detail: string
  info: string
}

const LEAD = /^ *(?:- +)*/

/** The place at the end of a text. */
export function placeAt(before: string): Place {
  const lines = before.split('\n')
  const line = lines.pop() ?? ''
  const flow = /^( *(?:- +)*)([\w-]+): *\{([^}]*)$/.exec(line)
  if (flow) {
    const [, lead = '', key = '', inner = ''] = flow
    return { path: [...parents(lines, widthOf(lead)), key], ...pairOf((inner.split(',').at(-1) ?? '').trimStart()) }
  }
  const lead = LEAD.exec(line)?.[0] ?? ''
  return { path: parents(lines, widthOf(lead)), ...pairOf(line.slice(lead.length)) }
}

/** Where parents start at the latest; a dash may stand below its key's first letter. */
function widthOf(lead: string): number {
  const dash = lead.indexOf('-')
  return dash < 0 ? lead.length : dash + 1
}

function pairOf(text: string): Pick<Place, 'key' | 'typed'> {
  const pair = /^([\w-]+): +(.*)$/.exec(text)
  return pair ? { key: pair[1] ?? '', typed: pair[2] ?? '' } : { key: null, typed: text }
}

function parents(lines: string[], width: number): string[] {
  const found: string[] = []
  let most = width
  for (const line of [...lines].reverse()) {
    const lead = LEAD.exec(line)?.[0] ?? ''
    const key = /^([\w-]+): *(?:#.*)?$/.exec(line.slice(lead.length))?.[1]
    if (lead.length < most && key !== undefined) found.unshift(key)
    if (lead.length < most && line.trim() !== '' && !line.trim().startsWith('#')) most = widthOf(lead)
  }
  return found
}

/** What may be written at a place.
 *
 * `known` has the values of fields that the schema cannot list, such as the names of data sets.
 */
export function suggest(schema: Json, place: Place, known: Record<string, string[]>): Suggestion[] {
  let here = alternatives(schema, schema)
  for (const name of place.path) here = here.flatMap((one) => property(one, name, schema))
  if (place.key === null) return [...keysOf(here, schema), ...valuesOf(here)]
  const named = place.path.length === 0 ? (known[place.key] ?? []) : []
  const values = valuesOf(here.flatMap((one) => property(one, place.key ?? '', schema)))
  return [...named.map((label) => valueNamed(label)), ...values]
}

function keysOf(schemas: Json[], root: Json): Suggestion[] {
  const found = new Map<string, Suggestion>()
  for (const schema of schemas) {
    for (const [label, raw] of Object.entries((schema.properties ?? {}) as Record<string, Json>)) {
      if (found.has(label)) continue
      const inner = alternatives(raw, root)
      const detail = 'default' in raw && typeof raw.default !== 'object' ? `default ${String(raw.default)}` : ''
      const info = String(raw.description ?? inner[0]?.description ?? '')
      const isBlock = inner.some((one) => one.properties !== undefined) && !inner.some(isScalar)
      found.set(label, { label, kind: 'property', isBlock, detail, info })
    }
  }
  return [...found.values()]
}

function isScalar(schema: Json): boolean {
  return ['string', 'number', 'integer', 'boolean'].includes(String(schema.type))
}

function valuesOf(schemas: Json[]): Suggestion[] {
  const values = schemas.flatMap((one) => {
    if (Array.isArray(one.enum)) return one.enum as unknown[]
    if ('const' in one) return [one.const]
    if (one.type === 'boolean') return [true, false]
    return 'default' in one && typeof one.default !== 'object' ? [one.default] : []
  })
  return [...new Set(values.map(String))].map((label) => valueNamed(label))
}

function valueNamed(label: string): Suggestion {
  return { label, kind: 'value', isBlock: false, detail: '', info: '' }
}

function property(schema: Json, name: string, root: Json): Json[] {
  const raw = ((schema.properties ?? {}) as Record<string, Json>)[name]
  return raw ? alternatives(raw, root) : []
}

/** All that a schema may stand for: behind `$ref`, each of several, and the items of lists. */
function alternatives(schema: Json, root: Json): Json[] {
  if (typeof schema.$ref === 'string') return alternatives(follow(schema.$ref, root), root)
  const choices = (schema.anyOf ?? schema.oneOf ?? schema.allOf) as Json[] | undefined
  const inner = choices?.flatMap((choice) => alternatives(choice, root)) ?? []
  const items = schema.items ? alternatives(schema.items as Json, root) : []
  return [schema, ...inner, ...items]
}

function follow(reference: string, root: Json): Json {
  let found: unknown = root
  for (const part of reference.replace(/^#\//, '').split('/')) found = (found as Json | undefined)?.[part]
  return (found ?? {}) as Json
}
