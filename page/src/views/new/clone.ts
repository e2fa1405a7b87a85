/** The spec of a new job that is like another one. All are pure. */
import { parseDocument, type Document } from 'yaml'
import { differences, isObject, pathOf } from '../../lib/spec'

type Json = Record<string, unknown>

/** Tasks that need no data set, with the least that their specs contain. */
export const WITHOUT_DATA: { task: string; title: string; what: string; text: string }[] = [
  {
    task: 'benchmark',
    title: 'Benchmark',
    what: 'Measures a GPU or CPU and recommends settings',
    text: 'task: benchmark\nmeasure:\n  seconds: 60\n',
  },
  {
    task: 'script',
    title: 'Script',
    what: 'Runs a program of your own, with or without data',
    text: 'task: script\nscript:\n  command: [python, -c, "print(1 + 1)"]\n',
  },
  {
    task: 'export',
    title: 'Export',
    what: 'Exports the model of a job again, in other variants',
    text: 'task: export\nsource: # id of the job\nexport:\n  variants: [fp16]\n',
  },
]

/** What a job's spec says that differs from the defaults of its task, as YAML.
 *
 * The task is left out where the data set says which one is meant.
 */
export function cloneSpec(spec: Json, schema: Json, taskOfData: string | null): Document {
  const document = parseDocument('')
  if (spec.task !== taskOfData) document.set('task', spec.task)
  if (typeof spec.dataset === 'string') document.set('dataset', spec.dataset)
  for (const { pointer, value } of differences(spec, spec, schema)) {
    if (pointer !== '/dataset' && pointer !== '/task') document.setIn(pathOf(pointer), document.createNode(value))
  }
  return document
}

/** Whether specs of this schema can name a data set. */
export function takesData(schema: Json): boolean {
  return isObject(schema.properties) && 'dataset' in schema.properties
}
