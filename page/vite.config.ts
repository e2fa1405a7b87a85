import { svelte } from '@sveltejs/vite-plugin-svelte'
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'
import { licences } from './licences.config.ts'

const SERVICE = process.env.REDKILN_URL ?? 'http://127.0.0.1:8321'
const COMPRESSED = /\.(html|js|mjs|css|svg|wasm|json)$/
const SMALL_BYTES = 1024
/** Brotli's best setting takes half a minute for the WASM runtime and saves only a few per cent. */
const LARGE_BYTES = 1024 * 1024

/**
 * Writes FILE.gz and FILE.br beside each file, which the service sends as they are. Of a large file
 * only these are left: the runtimes of ONNX would take 39 MB more, and every browser reads gzip.
 */
function precompress(): Plugin {
  return {
    name: 'precompress',
    apply: 'build',
    closeBundle() {
      const folder = join(import.meta.dirname, 'dist')
      for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
        const path = join(folder, name)
        if (!COMPRESSED.test(name) || statSync(path).size < SMALL_BYTES) continue
        const content = readFileSync(path)
        const quality = content.length > LARGE_BYTES ? 8 : 11
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
        writeFileSync(
          `${path}.br`,
          brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
        )
        if (content.length > LARGE_BYTES) rmSync(path)
      }
    },
  }
}

export default defineConfig({
  plugins: [svelte(), licences(), precompress()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0, // the Content-Security-Policy allows no data: scripts or fonts
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { '/v1': SERVICE, '/docs': SERVICE, '/openapi.json': SERVICE } },
})
