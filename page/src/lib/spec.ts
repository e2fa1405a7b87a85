/** Specs and their JSON schemas as data. All are pure. */

export interface Field {
  pointer: string
  value: unknown
}

export interface Difference {
  pointer: string
  value: unknown
  default: unknown
  by: 'user' | 'worker'
}

type Json = Record<string, unknown>

/** The leaves of an object with their JSON pointers; lists and empty objects are leaves. */
export function flatten(value: Json, prefix = ''): Field[] {
  return Object.entries(value).flatMap(([name, inner]) => {
    const pointer = `${prefix}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (isObject(inner) && Object.keys(inner).length > 0) return flatten(inner, pointer)
    return [{ pointer, value: inner }]
  })
}

/** The names in a JSON pointer, without its escapes. */
export function pathOf(pointer: string): string[] {
  return pointer.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The fields of a spec as it ran that differ from the defaults of the schema.
 *
 * A difference that the submitted spec has too is by the user, any other by the worker.
 */
export function differences(ran: Json, submitted: Json, schema: Json): Difference[] {
  const defaults = new Map(flatten(defaultsOf(schema, schema)).map((one) => [one.pointer, one.value]))
  const asked = new Map(flatten(submitted).map((one) => [one.pointer, one.value]))
  return flatten(ran)
    .filter((one) => canonical(one.value) !== canonical(defaults.get(one.pointer)))
    .map(({ pointer, value }) => ({
      pointer,
      value,
      default: defaults.has(pointer) ? defaults.get(pointer) : null,
      by: canonical(asked.get(pointer)) === canonical(value) ? 'user' : 'worker',
    }))
}

/** A value as text that does not depend on the order of its keys. */
function canonical(value: unknown): string | undefined {
  const sort = (_: string, inner: unknown): unknown =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner
  return JSON.stringify(value, sort)
}

/** The defaults of a schema as an object; fields without one are missing. */
export function defaultsOf(schema: Json, root: Json): Json {
  const properties = (resolve(schema, root).properties ?? {}) as Record<string, Json>
  const found: Json = {}
  for (const [name, property] of Object.entries(properties)) {
    const inner = resolve(property, root)
    if ('default' in property && !isObject(property.default)) found[name] = property.default
    else if (inner.properties) {
      found[name] = { ...defaultsOf(inner, root), ...(isObject(property.default) ? property.default : {}) }
    } else if ('default' in property) found[name] = property.default
    else if ('default' in inner) found[name] = inner.default
  }
  return found
}

/** A schema behind its `$ref`; of alternatives, the first object. */
export function resolve(schema: Json, root: Json): Json {
  if (typeof schema.$ref === 'string') {
    let found: unknown = root
    for (const part of schema.$ref.replace(/^#\//, '').split('/')) found = isObject(found) ? found[part] : {}
    return resolve(isObject(found) ? found : {}, root)
  }
  const choices = (schema.anyOf ?? schema.oneOf ?? schema.allOf) as Json[] | undefined
  if (choices && !schema.properties) {
    const object = choices.map((choice) => resolve(choice, root)).find((choice) => choice.properties)
    if (object) return { ...schema, ...object }
  }
  return schema
}
