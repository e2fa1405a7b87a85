/** The colour of a class's boxes and pixels, as `redkiln.annotations.class_colour` draws them. */
export function classColour(label: number): string {
  return `rgb(${classParts(label).join(', ')})`
}

/** The same as red, green and blue. */
export function classParts(label: number): [number, number, number] {
  const hue = 6 * ((label * 0.618034) % 1)
  const channel = (n: number): number => {
    const k = (n + hue) % 6
    return Math.round(255 * (1 - 0.85 * Math.max(0, Math.min(k, 4 - k, 1))))
  }
  return [channel(5), channel(3), channel(1)]
}
