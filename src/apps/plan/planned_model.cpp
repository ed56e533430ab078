#include "apps/plan/planned_model.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/local_model.h"
#include "base/json.h"
#include "base/printable.h"
#include "load/model_bundle.h"
#include "models/decoder_model.h"
#include "models/registry.h"
#include "plan/model_footprint.h"
#include "plan/weight_plan.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxPlanConfigBytes = 16U << 20;

bool holds_weights(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  return std::any_of(begin(files), end(files), [](const auto& file) {
    const std::string extension = file.path().extension().string();
    return extension == ".safetensors" || extension == ".gguf" || extension == ".bin";
  });
}

// The config.json that `named` is; empty where it is a model.
std::filesystem::path config_of(const std::string& named) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path(named);
  if (path.extension() == ".json") return path;
  if (!fs::is_directory(path, error)) return {};
  const fs::path config = path / "config.json";
  return fs::exists(config, error) && !holds_weights(path) ? config : fs::path();
}

// Of codes of so many bits.
Result<NumberFormat> format_of_bits(const JsonReader& quantization, std::int64_t bits) {
  if (bits == 4) return find_number_format("int4");
  if (bits == 8) return find_number_format("int8");
  return Status::unimplemented(
      fmt::format("{}: codes of {} bits are not planned for", quantization.where(), bits),
      "give the type to plan with: --dtype int4 or int8");
}

Result<NumberFormat> quantized_format(const JsonReader& quantization) {
  QUIRE_ASSIGN_OR_RETURN(const std::string method, quantization.get_string("quant_method"));
  if (method == "fp8") return find_number_format("fp8");
  if (method == "mxfp4") return find_number_format("fp4");
  if (method == "gptq" || method == "awq") {
    QUIRE_ASSIGN_OR_RETURN(const auto bits, quantization.get_int("bits"));
    return format_of_bits(quantization, bits);
  }
  return Status::unimplemented(
      fmt::format("{}: quant_method \"{}\" is not planned for by itself", quantization.where(),
                  printable(method)),
      "give the type to plan with: --dtype int4, int8, fp8, fp4, bf16 or fp32");
}

Result<NumberFormat> format_of_config(const JsonReader& config) {
  for (const char* const key : {"quantization_config", "compression_config"}) {
    if (!config.contains(key)) continue;
    QUIRE_ASSIGN_OR_RETURN(const JsonReader quantization, config.get_object(key));
    return quantized_format(quantization);
  }
  for (const char* const key : {"dtype", "torch_dtype"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto name, config.find_string(key));
    if (name) return find_number_format(*name);
  }
  return find_number_format("bf16");
}

Status open_config(const std::filesystem::path& path, PlannedModel& model) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, read_json_file(path, kMaxPlanConfigBytes));
  if (!value.is_object()) {
    return Status::bad_model(
        fmt::format("{}: expected an object, found {}", path.string(), json_kind_name(value)));
  }
  const JsonReader config(value.get_object(), path.string());
  QUIRE_ASSIGN_OR_RETURN(model.spec, spec_from_config(config));
  model.name = path.filename() == "config.json" && path.has_parent_path()
                   ? path.parent_path().filename().string()
                   : path.stem().string();
  if (model.format_source == "--dtype") return {};
  QUIRE_ASSIGN_OR_RETURN(model.format, format_of_config(config));
  model.format_source = "config.json";
  return {};
}

Status take_max_len(std::optional<std::int64_t> max_len, PlannedModel& model) {
  const std::int64_t trained = model.spec.max_position_embeddings;
  model.max_len = max_len.value_or(trained);
  if (model.max_len <= trained) return {};
  return Status::invalid_argument(fmt::format("--max-model-len {}: the model was trained for "
                                              "sequences of up to {} tokens",
                                              model.max_len, trained),
                                  fmt::format("use 1 to {}", trained));
}

// A place for files that nobody needs later.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::error_code error;
    std::string pattern = (std::filesystem::temp_directory_path(error) / "quire_XXXXXX").string();
    if (error || ::mkdtemp(pattern.data()) == nullptr) {
      return Status::io_error(
          "cannot make a folder for temporary files: " +
              (error ? error : std::error_code(errno, std::generic_category())).message(),
          "set TMPDIR to a folder that can be written to");
    }
    return ScratchFolder(pattern);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Spec, name and, without a --dtype, the format of a model whose tensors can be listed.
Status open_files(const std::string& path, PlannedModel& model,
                  std::optional<std::int64_t> max_len) {
  QUIRE_ASSIGN_OR_RETURN(ModelBundle bundle, open_model(path, ""));
  QUIRE_RETURN_IF_ERROR(check_tensors(bundle.spec, *bundle.weights));
  model.name = bundle.name;
  model.spec = bundle.spec;
  QUIRE_RETURN_IF_ERROR(take_max_len(max_len, model));
  if (model.format_source == "--dtype") return {};
  const auto bytes =
      static_cast<double>(planned_weight_bytes(bundle.spec, *bundle.weights, model.max_len).main);
  const double bits = 8 * bytes / static_cast<double>(count_parameters(bundle.spec));
  const bool float32 = std::ranges::all_of(bundle.weights->tensors(), [](const TensorInfo& each) {
    return each.encoding == Encoding::kF32;
  });
  model.format = {.name = "as in the files",
                  .bits = bits,
                  .other_bits = bits,
                  .arithmetic = float32 ? Arithmetic::kF32 : Arithmetic::kBF16,
                  .note = "their size as packed in memory here, over all numbers"};
  model.format_source = "the files";
  return {};
}

}  // namespace

Result<PlannedModel> open_planned_model(const std::string& named, const std::string& dtype,
                                        std::optional<std::int64_t> max_len) {
  PlannedModel model;
  if (dtype != "auto") {
    QUIRE_ASSIGN_OR_RETURN(model.format, find_number_format(dtype));
    model.format_source = "--dtype";
  }
  if (const auto config = config_of(named); !config.empty()) {
    QUIRE_RETURN_IF_ERROR(open_config(config, model));
    QUIRE_RETURN_IF_ERROR(take_max_len(max_len, model));
    return model;
  }
  // What is unavailable may be here in part, which local_model() knows.
  const auto config = config_of_absent_model(named);
  if (!config.ok() && config.status().code() != StatusCode::kUnavailable) return config.status();
  if (config.ok() && *config) {
    QUIRE_RETURN_IF_ERROR(open_config(**config, model));
    model.name = named.substr(named.find('/') + 1);
    QUIRE_RETURN_IF_ERROR(take_max_len(max_len, model));
    return model;
  }
  if (config.ok()) {
    QUIRE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::create());
    QUIRE_ASSIGN_OR_RETURN(const auto headers, headers_of_absent_model(named, scratch.path()));
    if (headers) {
      QUIRE_RETURN_IF_ERROR(open_files(*headers, model, max_len));
      return model;
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string path, local_model(named));
  QUIRE_RETURN_IF_ERROR(open_files(path, model, max_len));
  return model;
}

}  // namespace quire
