/** A tar file of files in the browser. Nothing is read before it is sent: parts are references. */

export interface Entry {
  path: string
  file: Blob
}

const BLOCK = 512
const encoder = new TextEncoder()

/** Pack files into one tar file, which the browser reads from disk while it uploads it. */
export function pack(entries: Entry[]): Blob {
  const parts: BlobPart[] = []
  for (const { path, file } of entries) {
    if (needsExtended(path)) {
      const record = extended(path)
      parts.push(header('pax', record.length, 'x'), record, padding(record.length))
    }
    parts.push(header(path, file.size, '0'), file, padding(file.size))
  }
  parts.push(new Uint8Array(2 * BLOCK))
  return new Blob(parts, { type: 'application/x-tar' })
}

function needsExtended(path: string): boolean {
  return encoder.encode(path).length > 100 || /[^\x20-\x7e]/.test(path)
}

/** A pax record of the path: its length in decimal counts itself. */
function extended(path: string): Uint8Array<ArrayBuffer> {
  const text = ` path=${path}\n`
  const size = encoder.encode(text).length
  let length = size
  while (size + String(length).length !== length) length = size + String(length).length
  return encoder.encode(`${length}${text}`)
}

function header(path: string, size: number, type: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK)
  const put = (text: string, at: number, most: number): void => {
    block.set(encoder.encode(text).subarray(0, most), at)
  }
  put(path, 0, 100)
  put('0000644\0', 100, 8)
  put('0000000\0', 108, 8)
  put('0000000\0', 116, 8)
  if (size < 8 ** 11) put(`${size.toString(8).padStart(11, '0')}\0`, 124, 12)
  else putLarge(block, size)
  put('00000000000\0', 136, 12)
  put('        ', 148, 8)
  put(type, 156, 1)
  put('ustar\x0000', 257, 8)
  const sum = block.reduce((total, byte) => total + byte, 0)
  put(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8)
  return block
}

/** GNU's binary form of sizes from 8 GiB on. */
function putLarge(block: Uint8Array, size: number): void {
  let rest = BigInt(size)
  for (let i = 135; i > 124; i -= 1) {
    block[i] = Number(rest & 255n)
    rest >>= 8n
  }
  block[124] = 0x80
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)
}
