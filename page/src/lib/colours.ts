/** The colour of a class's boxes, as `redkiln.annotations.class_colour` draws them. */
export function classColour(label: number): string {
  const hue = 6 * ((label * 0.618034) % 1)
  const channel = (n: number): number => {
    const k = (n + hue) % 6
    return Math.round(255 * (1 - 0.85 * Math.max(0, Math.min(k, 4 - k, 1))))
  }
  return `rgb(${channel(5)}, ${channel(3)}, ${channel(1)})`
}
