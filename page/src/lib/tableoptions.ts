/** Options of a data set as messages of the service write them: `missing=- column=zip=categorical`. */
export type Options = Record<string, string | number | boolean | string[] | Record<string, string>>

/** Read options as fields of an upload. Throws an `Error` that names a part without a value. */
export function readOptions(text: string): Options {
  const options: Options = {}
  for (const word of text.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? []) {
    const plain = word.replace(/"([^"]*)"|'([^']*)'/g, (_, double, single) => double ?? single)
    const at = plain.indexOf('=')
    if (at < 1) throw new Error(`Write the option ${word} as NAME=VALUE.`)
    add(options, plain.slice(0, at), plain.slice(at + 1))
  }
  return options
}

function add(options: Options, name: string, value: string): void {
  if (name === 'column') {
    const at = value.lastIndexOf('=')
    const columns = { ...(options.columns as Record<string, string> | undefined) }
    options.columns = { ...columns, [value.slice(0, at)]: value.slice(at + 1) }
  } else if (name === 'missing' || name === 'class') {
    const field = name === 'class' ? 'classes' : name
    options[field] = [...((options[field] as string[] | undefined) ?? []), value]
  } else if (name === 'header') options.header = value === 'true'
  else if (name === 'skip_bad') options.skip_bad = Number(value)
  else options[name] = value
}
