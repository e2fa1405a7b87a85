import type { Comparison } from '../api/types'

/** The verdict of a comparison with simple models, as the report words it. */
export function describeComparison(found: Comparison, samples: string): string {
  const { best, num_different: different, num_test: all } = found
  if (found.verdict !== 'equal') return `The model is ${found.verdict} than the best baseline, ${best}.`
  const unsure = `The ${samples} do not show whether the model or the best baseline, ${best}, is better`
  if (different == null || all == null) return `${unsure}.`
  if (different === 0) return `${unsure} (both give the same answers).`
  return `${unsure} (their answers differ for ${different} of ${all}).`
}
