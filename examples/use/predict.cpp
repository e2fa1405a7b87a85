// Sort photos with a downloaded image model: ./predict model.onnx photo.ppm ...
//
// Each photo is a PPM (or PGM for a grey model) of the model's size, `preprocessing.size` in
// manifest.json. README.md has the command that makes one.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

int main(int count, char** words) {
    Ort::Env env;
    Ort::Session session(env, words[1], Ort::SessionOptions{});
    Ort::AllocatorWithDefaultOptions allocator;
    const auto input = session.GetInputNameAllocated(0, allocator);
    const auto output = session.GetOutputNameAllocated(0, allocator);
    const char* inputs[] = {input.get()};
    const char* outputs[] = {output.get()};
    const auto metadata = session.GetModelMetadata();
    std::cout << metadata.LookupCustomMetadataMapAllocated("classes", allocator).get() << "\n";
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    for (int place = 2; place < count; ++place) {
        std::ifstream file(words[place], std::ios::binary);
        std::string kind;
        std::int64_t width = 0, height = 0, largest = 0;
        file >> kind >> width >> height >> largest;
        file.get();
        const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), {}};
        const std::int64_t channels = kind == "P5" ? 1 : 3;
        // Values from 0 to 1, channels first.
        std::vector<float> pixels(channels * height * width);
        for (std::size_t i = 0; i < std::min(pixels.size(), bytes.size()); ++i)
            pixels[i % channels * height * width + i / channels] = bytes[i] / 255.0f;
        const std::array<std::int64_t, 4> shape{1, channels, height, width};
        const auto images = Ort::Value::CreateTensor<float>(
            memory, pixels.data(), pixels.size(), shape.data(), shape.size());
        const auto results = session.Run(Ort::RunOptions{}, inputs, &images, 1, outputs, 1);
        const float* logits = results[0].GetTensorData<float>();
        const auto num = results[0].GetTensorTypeAndShapeInfo().GetElementCount();
        const auto best = std::max_element(logits, logits + num) - logits;
        std::cout << words[place] << " is number " << best << ", counted from 0\n";
    }
}
