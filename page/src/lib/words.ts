/** Words of a text, as `redkiln.cells.prose.find_words` finds them for tables with prose. */

const RUN = /[\p{L}\p{N}]+/gu
const NO_BLANKS = /[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]/

/** Words in lower case, and pairs of characters of scripts without blanks. */
export function findWords(text: string): Set<string> {
  const words = new Set<string>()
  for (const [run] of text.toLowerCase().matchAll(RUN)) {
    if (!NO_BLANKS.test(run)) {
      words.add(run)
      continue
    }
    const signs = [...run]
    for (let i = 0; i < Math.max(1, signs.length - 1); i += 1) words.add(signs.slice(i, i + 2).join(''))
  }
  return words
}
