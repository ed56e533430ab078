// Writes a model of a given shape with random weights, for measuring: what a matrix multiplication
// costs does not depend on what the weights say. Weights go to the disk as they are made; a few MiB
// of them are in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "apps/make_model/model_shape.h"
#include "apps/make_model/tensor_list.h"
#include "base/status.h"
#include "tensor/thread_pool.h"

namespace quire {

struct MakeModelArgs {
  ModelShape shape;
  std::string encoding = "bf16";
  ModelFormat format = ModelFormat::kHuggingFace;
  std::filesystem::path output;  // a folder (Hugging Face layout) or a file (GGUF)
  std::uint64_t seed = 0;
};

// Called after each piece with the bytes of weights written and their total; false ends the work.
using MakeModelProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// The same arguments give the same bytes, on any number of threads, and one seed gives one model in
// every format and encoding, up to rounding. Builds it beside `output`, with ".part" appended to
// the name, and renames it when it is complete; what is left is removed at an error. Errors:
// kInvalidArgument for an output that exists, an encoding that the format lacks or a vocabulary
// that cannot be made; kResourceExhausted where the disk has no room; kIoError; kCancelled.
Status make_model(const MakeModelArgs& args, ThreadPool& pool, const MakeModelProgress& progress);

}  // namespace quire
