/** Files that a person dropped or chose, with their paths. */
import type { Entry } from './tar'

/** All files of a drop, those of folders included. */
export async function readDrop(transfer: DataTransfer): Promise<Entry[]> {
  // The list of items is emptied when this function first waits.
  const roots = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((one) => one !== null)
  const found: Entry[] = []
  for (const root of roots) await walk(root, '', found)
  return found
}

async function walk(entry: FileSystemEntry, prefix: string, found: Entry[]): Promise<void> {
  const path = prefix + entry.name
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    )
    found.push({ path, file })
    return
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader()
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    )
    if (some.length === 0) return
    for (const inner of some) await walk(inner, `${path}/`, found)
  }
}

export function fromInput(files: FileList): Entry[] {
  return [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }))
}

/** Without hidden files, and without the folder that everything is in. */
export function tidy(entries: Entry[]): Entry[] {
  const visible = entries.filter(({ path }) => !path.split('/').some((part) => part.startsWith('.')))
  const tops = new Set(visible.map(({ path }) => path.split('/')[0]))
  const isNested = visible.length > 0 && visible.every(({ path }) => path.includes('/'))
  if (tops.size !== 1 || !isNested) return visible
  return visible.map(({ path, file }) => ({ path: path.slice(path.indexOf('/') + 1), file }))
}

const SINGLE = /\.(zip|tar|gz|tgz|csv|tsv|txt|jsonl|ndjson|parquet|npz)$/i

/** Whether a file is a data set by itself. */
export function isSingle(name: string): boolean {
  return SINGLE.test(name)
}

export function isTable(name: string): boolean {
  return /\.(csv|tsv|txt)$/i.test(name)
}

/** A name that the service accepts. */
export function nameFrom(text: string): string {
  const stem = text.replace(/\.(zip|tar|tgz|gz|csv|tsv|txt|jsonl|ndjson|parquet|npz)$/i, '')
  return stem.normalize('NFC').replace(/[^\p{L}\p{M}\p{N}._ -]+/gu, '-').replace(/^[^\p{L}\p{N}]+/u, '').slice(0, 100) || 'data'
}

/** The column names in the first line of a table, as far as they can be read without guessing. */
export async function columnsOf(file: Blob): Promise<string[]> {
  const line = (await file.slice(0, 64_000).text()).replace(/^\ufeff/, '').split(/\r?\n/)[0] ?? ''
  const counts = ['\t', ';', ','].map((mark) => [mark, line.split(mark).length] as const)
  const [mark, count] = counts.reduce((best, one) => (one[1] > best[1] ? one : best))
  if (count < 2) return []
  return line.split(mark).map((cell) => cell.trim().replace(/^"(.*)"$/, '$1'))
}
