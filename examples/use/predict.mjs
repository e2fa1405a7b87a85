// Run a downloaded model in a browser or in Node with onnxruntime-web: npm install onnxruntime-web
// pixels: Float32Array of size * size * channels values from 0 to 1, channels first (RGB or grey).
import * as ort from "onnxruntime-web";

export async function open(url) {
  return ort.InferenceSession.create(url, { executionProviders: ["wasm"] });
}

export async function predict(session, pixels, { size, channels, classes }) {
  const images = new ort.Tensor("float32", pixels, [1, channels, size, size]);
  const { logits } = await session.run({ images });
  const odds = Array.from(logits.data, (value) => Math.exp(value - Math.max(...logits.data)));
  const sum = odds.reduce((a, b) => a + b, 0);
  return Object.fromEntries(classes.map((name, index) => [name, odds[index] / sum]));
}
