/** ONNX Runtime as WebAssembly, on one thread. */
import { InferenceSession, Tensor, env } from 'onnxruntime-web/wasm'
import wasmUrl from 'onnxruntime-web/ort-wasm-simd-threaded.wasm?url'
import type { Runtime } from './model'

env.wasm.numThreads = 1 // more need cross-origin isolation
env.wasm.wasmPaths = { wasm: wasmUrl }

export const runtime: Runtime = { InferenceSession, Tensor, provider: 'wasm' }
