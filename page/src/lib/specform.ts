/** A form from a JSON schema: its fields with pointers, kinds and defaults. All are pure. */
import { isObject, resolve } from './spec'

type Json = Record<string, unknown>

export interface FormField {
  pointer: string
  path: string[]
  description: string
  fallback: unknown
  /** Allowed values of a choice; else null. */
  choices: string[] | null
  isBoolean: boolean
}

/** What matters first, in this order. */
const FIRST = [
  '/name',
  '/source',
  '/script/command',
  '/measure/tests',
  '/measure/seconds',
  '/quality',
  '/model/name',
  '/training/epochs',
  '/training/batch_size',
  '/training/optimizer/lr',
  '/training/augment/flip',
  '/resources/device',
  '/priority',
]
const NOT_IN_FORM = new Set(['/task', '/dataset', '/metadata'])

/** All fields of a schema that have one value, in the schema's order. */
export function fieldsOf(schema: Json): FormField[] {
  return walk(schema, schema, [], {}).filter((field) => !NOT_IN_FORM.has(field.pointer))
}

export function isFirst(field: FormField): boolean {
  return FIRST.includes(field.pointer)
}

export function firstOf(fields: FormField[]): FormField[] {
  return FIRST.map((pointer) => fields.find((field) => field.pointer === pointer)).filter(
    (field) => field !== undefined,
  )
}

function walk(schema: Json, root: Json, path: string[], defaults: unknown): FormField[] {
  const properties = (resolve(schema, root).properties ?? {}) as Record<string, Json>
  return Object.entries(properties).flatMap(([name, property]) => {
    const here = [...path, name]
    const outer = isObject(defaults) && name in defaults ? defaults[name] : property.default
    const inner = resolve(property, root)
    if (inner.properties && here.length < 5) return walk(inner, root, here, outer)
    return [fieldOf(property, inner, here, outer)]
  })
}

function fieldOf(property: Json, inner: Json, path: string[], fallback: unknown): FormField {
  const alternatives = [property, inner, ...((property.anyOf ?? []) as Json[])]
  const choices = alternatives.map((one) => one.enum).find(Array.isArray) as unknown[] | undefined
  return {
    pointer: `/${path.join('/')}`,
    path,
    description: String(property.description ?? inner.description ?? ''),
    fallback,
    choices: choices && property.type !== 'array' ? choices.map(String) : null,
    isBoolean: inner.type === 'boolean',
  }
}

/** The value that a person typed: a number, true, null, a list, or text. */
export function read(text: string): unknown {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  if (/^[[{"]/.test(trimmed) || /^(true|false|null)$/.test(trimmed)) {
    try {
      return JSON.parse(trimmed)
    } catch {
      return trimmed
    }
  }
  const asNumber = Number(trimmed)
  return Number.isFinite(asNumber) ? asNumber : trimmed
}

export function show(value: unknown): string {
  if (value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}
