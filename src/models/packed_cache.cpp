#include "models/packed_cache.h"

#include <utility>

#include <fmt/format.h>

#include "weights/checkpoint_state.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// What the matrices are packed for.
std::string devices_text(const ModelDevices& devices) {
  const LayerSplit& split = devices.split;
  if (split.empty()) return std::string(devices.main->kind());
  return fmt::format("{}-host{}-{}", devices.main->kind(), split.host_layers,
                     split.host_expert_layers);
}

// Of all that the packed bytes depend on. How they are packed does not depend on the level.
std::string key_of(const WeightSource& source, LoadQuantization quantization,
                   const ModelDevices& devices) {
  return fmt::format("packing {} of device {}, quantization {}, {}", kPackedWeightVersion,
                     devices_text(devices), load_quantization_name(quantization),
                     checkpoint_state(source));
}

// One file for a model, a quantization and a kind of device: what an older checkpoint left goes
// with the next write.
fs::path path_of(const fs::path& folder, const fs::path& model, LoadQuantization quantization,
                 const ModelDevices& devices) {
  std::error_code error;
  fs::path place = fs::canonical(model, error);
  if (error) place = model;
  const std::string_view form = load_quantization_name(quantization);
  return folder / packed_file_name(fmt::format("{}-{}-{}", place.filename().string(), form,
                                               devices_text(devices)),
                                   place.string());
}

Status unusable(const fs::path& folder, std::string_view why) {
  return Status::io_error(fmt::format("--packed-weights-cache {}: {}", folder.string(), why),
                          "name a folder that can be written to");
}

}  // namespace

Result<std::unique_ptr<PackedCache>> PackedCache::open(const fs::path& folder,
                                                       const fs::path& model,
                                                       const WeightSource& source,
                                                       LoadQuantization quantization,
                                                       const ModelDevices& devices) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return unusable(folder, error.message());
  std::unique_ptr<PackedCache> cache(
      new PackedCache(path_of(folder, model, quantization, devices)));
  std::string key = key_of(source, quantization, devices);
  auto file = PackedFile::open(cache->path_, devices.main->host_threads());
  if (file.ok() && file->key() == key) {
    cache->file_ = std::make_shared<const PackedFile>(*std::move(file));
    return cache;
  }
  if (file.ok()) {
    cache->reason_ = "another state of the checkpoint or another version wrote the one before";
  } else if (file.status().code() != StatusCode::kNotFound) {
    cache->reason_ = file.status().message();
  }
  auto writer = PackedFileWriter::create(cache->path_, std::move(key));
  if (writer.ok()) {
    cache->writer_.emplace(*std::move(writer));
  } else if (writer.status().code() == StatusCode::kUnavailable) {
    cache->failure_ = writer.status();
  } else {
    return unusable(folder, writer.status().message());
  }
  return cache;
}

Result<std::optional<PackedWeight>> PackedCache::find(const std::string& name, WeightLayout layout,
                                                      std::int64_t outputs, std::int64_t inputs,
                                                      bool has_input_order) const {
  if (file_ == nullptr) return std::optional<PackedWeight>();
  const PackedMatrix* found = file_->find(name);
  const std::uint64_t bytes =
      packed_bytes(layout, outputs, inputs) + (has_input_order ? input_order_bytes(inputs) : 0);
  if (found == nullptr || found->layout != weight_layout_name(layout) ||
      found->outputs != outputs || found->inputs != inputs || found->data.size() != bytes) {
    return Status::bad_model(fmt::format("{}: expected matrix {} as {} of {} by {}", path_.string(),
                                         name, weight_layout_name(layout), outputs, inputs),
                             "remove the file");
  }
  return std::optional(PackedWeight::view(layout, outputs, inputs, found->data, file_));
}

void PackedCache::add(const std::string& name, const PackedWeight& weight, Device& device) {
  if (!writer_) return;
  failure_ = writer_->add({.name = name,
                           .layout = std::string(weight_layout_name(weight.layout())),
                           .outputs = weight.outputs(),
                           .inputs = weight.inputs(),
                           .data = weight.bytes()},
                          device.host_threads());
  if (!failure_.ok()) writer_.reset();
}

Result<std::string> PackedCache::finish() {
  if (file_ != nullptr) return fmt::format("packed weights mapped from {}", path_.string());
  if (writer_) failure_ = writer_->commit();
  if (!failure_.ok()) return failure_;
  return fmt::format("packed weights written to {} ({:.0f} MiB), for the next start{}",
                     path_.string(), static_cast<double>(writer_->size_bytes()) / 1048576.0,
                     reason_.empty() ? "" : fmt::format("; {}", reason_));
}

}  // namespace quire
