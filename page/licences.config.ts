import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'vite'

interface Licence {
  name: string
  version: string
  licence: string
  text: string
}

interface Locked {
  version: string
  license?: string
  dev?: boolean
  optional?: boolean
}

const MODULE = 'virtual:licences'
const FILE = /^(licen[cs]e|copying)/i
const TERMS = /^\s*(permission (is hereby granted|to use))/im
const ROOT = import.meta.dirname

/** Makes `virtual:licences`: the packages that the page contains, with the texts of their licences. */
export function licences(): Plugin {
  return {
    name: 'licences',
    resolveId: (id) => (id === MODULE ? `\0${MODULE}` : undefined),
    load: (id) => (id === `\0${MODULE}` ? `export default ${JSON.stringify(collect())}` : undefined),
  }
}

function collect(): Licence[] {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: Record<string, Locked> }
  const found = Object.entries(lock.packages)
    .filter(([path, one]) => path !== '' && !one.dev && !one.optional)
    .map(([path, one]) => describe(path, one))
  // Some packages name their licence only; its terms are those of another package.
  for (const one of found.filter(({ text }) => text === '')) {
    const terms = found.find((other) => other.licence === one.licence && TERMS.test(other.text))?.text
    one.text = `${authorOf(one.name)}\n\n${terms?.slice(terms.search(TERMS)) ?? ''}`.trim()
  }
  return found
}

function describe(path: string, { version, license }: Locked): Licence {
  const file = readdirSync(join(ROOT, path)).find((name) => FILE.test(name))
  const text = file ? readFileSync(join(ROOT, path, file), 'utf8').trim() : ''
  return { name: path.replace(/^.*node_modules\//, ''), version, licence: license ?? 'unknown', text }
}

function authorOf(name: string): string {
  const about = JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8')) as {
    author?: string | { name: string }
    repository?: string | { url: string }
  }
  const author = typeof about.author === 'object' ? about.author.name : about.author
  const repository = typeof about.repository === 'object' ? about.repository.url : about.repository
  return `By ${author ?? `the authors of ${name}`}${repository ? `, ${repository}` : ''}`
}
