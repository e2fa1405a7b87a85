/** The newest answers of a model, with the pictures that belong to them. */
import type { Box } from './boxes'
import type { Difference } from './model'

export interface Answer {
  key: number
  picture: string | null
  name: string
  best: { name: string; share: number; isAnswer: boolean }[]
  value: number | null
  /** What the threshold of the job would answer, if it differs. */
  note?: string
  ms: number
  /** How WebGPU did on the same input, if it is compared. */
  gpu?: Difference
  found?: { width: number; height: number; boxes: Box[] }
}

const MOST = 24

export class Answers {
  list = $state.raw<Answer[]>([])
  #count = 0

  add(one: Omit<Answer, 'key'>): void {
    const all = [{ key: (this.#count += 1), ...one }, ...this.list]
    this.list = all.slice(0, MOST)
    forget(all.slice(MOST))
  }

  clear(): void {
    forget(this.list)
    this.list = []
  }
}

/** Give back the memory of the pictures. */
function forget(answers: Answer[]): void {
  for (const { picture } of answers) if (picture) URL.revokeObjectURL(picture)
}
