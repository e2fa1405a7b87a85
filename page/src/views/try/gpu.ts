/** ONNX Runtime with WebGPU, which is a program of its own. */
import { InferenceSession, Tensor, env } from 'onnxruntime-web/webgpu'
import wasmUrl from 'onnxruntime-web/ort-wasm-simd-threaded.asyncify.wasm?url'
import type { Runtime } from './model'

env.wasm.numThreads = 1
env.wasm.wasmPaths = { wasm: wasmUrl }

export const runtime: Runtime = { InferenceSession, Tensor, provider: 'webgpu' }
