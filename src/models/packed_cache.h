// The packed weights of a checkpoint, kept on disk from one start to the next: what
// --packed-weights-cache asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "kernels/device.h"
#include "kernels/packed_weight.h"
#include "models/model_devices.h"
#include "weights/packed_file.h"
#include "weights/weight_source.h"

namespace quire {

class PackedCache {
 public:
  // The cache in `folder`, which is made if it is not there, of the checkpoint at `model`. Its file
  // is read where it was written from the checkpoint's files as they are now (names, sizes, times
  // of writing), quantized the same way and packed for the same kinds of devices; else it is
  // written anew, or left alone where another process does just that. Errors: kIoError for a folder
  // that cannot be made or written to.
  static Result<std::unique_ptr<PackedCache>> open(const std::filesystem::path& folder,
                                                   const std::filesystem::path& model,
                                                   const WeightSource& source,
                                                   LoadQuantization quantization,
                                                   const ModelDevices& devices);

  // The matrix as it was kept, mapped; nullopt where the file is not read. kBadModel for a file
  // with another matrix in its place.
  Result<std::optional<PackedWeight>> find(const std::string& name, WeightLayout layout,
                                           std::int64_t outputs, std::int64_t inputs,
                                           bool has_input_order) const;

  // Keeps a matrix for the next start, as Device::pack() has made it; no effect where the file is
  // read. After a first failure the rest is not kept either.
  void add(const std::string& name, const PackedWeight& weight, Device& device);

  // Once all matrices are loaded: where they came from or went to, in words. An error says why they
  // were not kept; the loaded weights are just as good.
  Result<std::string> finish();

 private:
  explicit PackedCache(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::shared_ptr<const PackedFile> file_;  // read it,
  std::optional<PackedFileWriter> writer_;  // or write it,
  Status failure_;                          // or say why neither
  std::string reason_;                      // why it is written, where there was one before
};

}  // namespace quire
