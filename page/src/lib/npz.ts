/** Arrays of an `.npz` file: a zip of `.npy` files, stored or deflated. */

export interface NamedArray {
  shape: number[]
  data: Uint8Array | Int8Array | Uint16Array | Int16Array | Float32Array | Float64Array | BigInt64Array | Int32Array
}

/** Read all arrays whose type is known, by their names. */
export async function readNpz(buffer: ArrayBuffer): Promise<Record<string, NamedArray>> {
  const view = new DataView(buffer)
  let end = buffer.byteLength - 22
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1
  if (end < 0) throw new Error('This is no npz file.')
  const found: Record<string, NamedArray> = {}
  let at = view.getUint32(end + 16, true)
  for (let i = view.getUint16(end + 10, true); i > 0; i -= 1) {
    const method = view.getUint16(at + 10, true)
    const size = view.getUint32(at + 20, true)
    const [nameLength, extra, comment] = [28, 30, 32].map((k) => view.getUint16(at + k, true)) as [number, number, number]
    const local = view.getUint32(at + 42, true)
    const name = new TextDecoder().decode(new Uint8Array(buffer, at + 46, nameLength))
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true)
    const packed = new Uint8Array(buffer, start, size)
    const array = readNpy(method === 0 ? packed.slice().buffer : await inflate(packed))
    if (array) found[name.replace(/\.npy$/, '')] = array
    at += 46 + nameLength + extra + comment
  }
  return found
}

async function inflate(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'))
  return new Response(stream).arrayBuffer()
}

function readNpy(buffer: ArrayBuffer): NamedArray | null {
  const view = new DataView(buffer)
  const isLong = view.getUint8(6) >= 2
  const start = isLong ? 12 : 10
  const length = isLong ? view.getUint32(8, true) : view.getUint16(8, true)
  const header = new TextDecoder().decode(new Uint8Array(buffer, start, length))
  const type = /'descr': '([^']+)'/.exec(header)?.[1]
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? '').split(',').filter((text) => text.trim() !== '').map(Number)
  const content = buffer.slice(start + length)
  if (header.includes("'fortran_order': True")) return null
  if (type === '|u1' || type === '|b1') return { shape, data: new Uint8Array(content) }
  if (type === '|i1') return { shape, data: new Int8Array(content) }
  if (type === '<u2') return { shape, data: new Uint16Array(content) }
  if (type === '<i2') return { shape, data: new Int16Array(content) }
  if (type === '<f4') return { shape, data: new Float32Array(content) }
  if (type === '<f8') return { shape, data: new Float64Array(content) }
  if (type === '<i8') return { shape, data: new BigInt64Array(content) }
  if (type === '<i4') return { shape, data: new Int32Array(content) }
  return null
}
