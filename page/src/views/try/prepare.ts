/** Turns what a person typed into a model's inputs, as in training. */
import type { Tokenizer } from '@huggingface/tokenizers'
import { request } from '../../api/client'
import type { Artifact } from '../../api/types'
import { derive } from '../../lib/dates'
import { findWords } from '../../lib/words'
import type { ColumnInput, Feed, Manifest, Origin } from './model'

/** Reads a text as tokens and their mask. */
export type ReadText = (text: string) => Feed[]

/** Open the tokenizer that the job published. */
export async function openTokenizer(files: Artifact[], manifest: Manifest): Promise<ReadText> {
  const name = manifest.preprocessing.tokenizer
  const file = files.find((one) => one.name === name)
  if (!file) throw new Error(`The job has no ${name}, which splits texts into tokens.`)
  const [module, content] = await Promise.all([import('@huggingface/tokenizers'), request('get', file.url)])
  const tokenizer = new module.Tokenizer((await content.json()) as object, {})
  return (text) => tokensOf(tokenizer, text, manifest.preprocessing.max_length ?? 512)
}

/** A text that is too long keeps its end mark, as in training. */
function tokensOf(tokenizer: Tokenizer, text: string, most: number): Feed[] {
  const all = tokenizer.encode(text).ids
  const ids = all.length > most ? [...all.slice(0, most - 1), all.at(-1) ?? 0] : all
  const shape = [1, ids.length]
  return [
    { name: 'input_ids', data: BigInt64Array.from(ids, BigInt), shape },
    { name: 'attention_mask', data: new BigInt64Array(ids.length).fill(1n), shape },
  ]
}

/** A field of the form for a row. */
export interface RowField {
  column: string
  kind: 'number' | 'date' | 'moment' | 'choice' | 'text'
  /** Values of a choice. */
  choices: string[]
  /** What the field shows first: the mean in training, or the most frequent value. */
  first: string
}

const HOURS = /^hour/
/** Sorts `9:30` before `10:00`. */
const NATURAL = new Intl.Collator('en', { numeric: true })

/** The columns of the user's table; numbers that come from dates or texts ask for these once. */
export function fieldsOf(inputs: ColumnInput[]): RowField[] {
  const origins = inputs.flatMap((input) => Object.values(input.derived ?? {}))
  const timed = new Set(origins.filter((one) => HOURS.test(one.part)).map((one) => one.column))
  const fields = inputs.flatMap((input): RowField[] =>
    (input.columns ?? []).flatMap((column, i): RowField[] => {
      const categories = input.categories?.[column]
      if (categories) return [{ column, kind: 'choice', choices: [...categories].sort(NATURAL.compare), first: categories[0] ?? '' }]
      const origin = input.derived?.[column]
      if (origin) return originsOf(origin, timed)
      const mean = Number((input.mean?.[i] ?? 0).toPrecision(4))
      return [{ column, kind: 'number', choices: [], first: String(mean) }]
    }),
  )
  return [...new Map(fields.map((field) => [field.column, field])).values()]
}

/** The fields of a derived number; `timed` has the columns whose dates have times. */
function originsOf(origin: Origin, timed: Set<string>): RowField[] {
  const columns = origin.since ? [origin.column, origin.since] : [origin.column]
  return columns.map((column) => {
    const kind = origin.word ? 'text' : timed.has(column) ? 'moment' : 'date'
    return { column, kind, choices: [], first: '' }
  })
}

/** A row as the model's inputs; an empty field is a missing value. */
export function feedsOf(inputs: ColumnInput[], row: Record<string, string>): Feed[] {
  return inputs.map((input) => {
    const columns = input.columns ?? []
    const shape = [1, columns.length]
    if (input.categories) {
      const codes = columns.map((column) => input.categories?.[column]?.indexOf(row[column] ?? '') ?? -1)
      return { name: input.name, data: BigInt64Array.from(codes, BigInt), shape }
    }
    return { name: input.name, data: Float32Array.from(columns, (column) => numberOf(input, column, row)), shape }
  })
}

function numberOf(input: ColumnInput, column: string, row: Record<string, string>): number {
  const origin = input.derived?.[column]
  const text = (row[origin?.column ?? column] ?? '').trim()
  if (origin?.word) return findWords(text).has(origin.word) ? 1 : 0
  if (text === '') return NaN
  if (origin?.since) return derive(text, 'ordinal') - derive((row[origin.since] ?? '').trim(), 'ordinal')
  if (origin) return derive(text, origin.part)
  const value = Number(text)
  return input.missing_numbers?.includes(value) ? NaN : value
}
