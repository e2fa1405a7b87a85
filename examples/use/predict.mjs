// Sort photos with a downloaded image model in a browser: npm install onnxruntime-web
import * as ort from "onnxruntime-web";

// Opens the model in a folder that has its model.onnx and manifest.json.
export async function open(folder) {
  const manifest = await (await fetch(new URL("manifest.json", folder))).json();
  const url = new URL("model.onnx", folder).href;
  const session = await ort.InferenceSession.create(url, { executionProviders: ["wasm"] });
  return { session, classes: manifest.classes, facts: manifest.preprocessing, thresholds: manifest.thresholds };
}

// Returns [class, probability] of a photo (a File or Blob), the most probable first.
export async function predict({ session, classes, facts, thresholds }, photo) {
  const image = await decode(photo, facts.channel_order === "grey" ? 1 : 3);
  const input = facts.interface === "embedded" ? asBytes(image) : asPixels(fit(image, facts.size, facts.resize));
  const output = (await session.run({ [facts.input]: input }))[facts.output].data;
  // A model of several labels returns probabilities.
  const largest = Math.max(...output);
  const odds = thresholds ? [...output] : [...output].map((value) => Math.exp(value - largest));
  const sum = thresholds ? 1 : odds.reduce((a, b) => a + b, 0);
  return classes.map((name, i) => [name, odds[i] / sum]).sort((a, b) => b[1] - a[1]);
}

// Decodes a photo, upright, over black, as RGB or as grey by Pillow's weights.
async function decode(photo, channels) {
  const bitmap = await createImageBitmap(photo, { colorSpaceConversion: "none" });
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const rgba = canvas.getImageData(0, 0, width, height).data;
  const data = new Uint8ClampedArray(width * height * channels);
  for (let i = 0; i < width * height; i += 1) {
    const [r, g, b] = [0, 1, 2].map((c) => Math.round((rgba[4 * i + c] * rgba[4 * i + 3]) / 255));
    if (channels === 1) data[i] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    else data.set([r, g, b], 3 * i);
  }
  return { data, width, height, channels };
}

// Makes an image square: stretched, its centre cut out, or with black borders.
function fit(image, size, how) {
  const { width, height } = image;
  const side = Math.min(width, height);
  if (how === "crop") return resize(image, size, size, side, side);
  if (how === "stretch" || width === height) return resize(image, size, size, width, height);
  const [w, h] = [width, height].map((one) => Math.max(1, Math.round((one / Math.max(width, height)) * size)));
  const small = resize(image, w, h, width, height);
  const square = { ...small, width: size, height: size, data: new Uint8ClampedArray(size * size * image.channels) };
  const [left, top] = [(size - w) >> 1, (size - h) >> 1];
  for (let y = 0; y < h; y += 1) {
    const row = small.data.subarray(y * w * image.channels, (y + 1) * w * image.channels);
    square.data.set(row, ((y + top) * size + left) * image.channels);
  }
  return square;
}

// Resizes the middle of an image as Pillow's BILINEAR does, which averages over the covered area.
function resize({ data, width, height, channels }, toWidth, toHeight, partWidth, partHeight) {
  const across = weigh(width, toWidth, partWidth);
  const down = weigh(height, toHeight, partHeight);
  const wide = new Uint8ClampedArray(toWidth * height * channels);
  const done = new Uint8ClampedArray(toWidth * toHeight * channels);
  const each = (columns, rows, set) => {
    for (let y = 0; y < rows; y += 1) for (let x = 0; x < columns; x += 1) for (let c = 0; c < channels; c += 1) set(x, y, c);
  };
  const add = ({ start, weights }, read) => Math.floor(weights.reduce((sum, weight, k) => sum + weight * read(start + k), 0.5));
  each(toWidth, height, (x, y, c) => {
    wide[(y * toWidth + x) * channels + c] = add(across[x], (at) => data[(y * width + at) * channels + c]);
  });
  each(toWidth, toHeight, (x, y, c) => {
    done[(y * toWidth + x) * channels + c] = add(down[y], (at) => wide[(at * toWidth + x) * channels + c]);
  });
  return { data: done, width: toWidth, height: toHeight, channels };
}

// For each new pixel, the old pixels that it covers, with a weight that falls off like a triangle.
function weigh(from, to, part) {
  const support = Math.max(1, part / to);
  return Array.from({ length: to }, (_, i) => {
    const centre = (from - part) / 2 + ((i + 0.5) * part) / to;
    const start = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(from, Math.trunc(centre + support + 0.5));
    const raw = Array.from({ length: end - start }, (_, k) => Math.max(0, 1 - Math.abs(k + start - centre + 0.5) / support));
    const sum = raw.reduce((a, b) => a + b, 0);
    return { start, weights: raw.map((weight) => weight / sum) };
  });
}

// Bytes of any size, channels last, for a model with `interface: embedded`.
function asBytes({ data, width, height, channels }) {
  return new ort.Tensor("uint8", new Uint8Array(data.buffer), [1, height, width, channels]);
}

// Values from 0 to 1, channels first.
function asPixels({ data, width, height, channels }) {
  const values = new Float32Array(data.length);
  data.forEach((value, i) => {
    values[(i % channels) * width * height + Math.floor(i / channels)] = Math.fround(value / 255);
  });
  return new ort.Tensor("float32", values, [1, channels, height, width]);
}
