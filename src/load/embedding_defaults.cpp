#include "load/embedding_defaults.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "weights/gguf.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModules = "modules.json";
constexpr std::uint64_t kMaxSettingsBytes = 1U << 20;  // published files have a few hundred bytes
constexpr std::string_view kOverride = "start with --pooling-type mean, cls or last";

// What sentence-transformers calls a way of pooling, as a value of pooling_mode and as a key that
// is true; none: Quire does not have it.
struct Mode {
  std::string_view name;
  std::string_view key;
  std::optional<Pooling> pooling = std::nullopt;
};
constexpr std::array kModes = {
    Mode{"cls", "pooling_mode_cls_token", Pooling::kCls},
    Mode{"mean", "pooling_mode_mean_tokens", Pooling::kMean},
    Mode{"lasttoken", "pooling_mode_lasttoken", Pooling::kLast},
    Mode{"max", "pooling_mode_max_tokens"},
    Mode{"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    Mode{"weightedmean", "pooling_mode_weightedmean_tokens"},
};

Result<json::value> read_json(const fs::path& folder, const std::string& name) {
  const auto text = read_file(folder / name, kMaxSettingsBytes);
  if (!text.ok()) {
    const bool missing = text.status().code() == StatusCode::kNotFound;
    return Status::config(fmt::format("{}: {}", name, missing ? "not found" : "cannot be read"),
                          "fetch the model's folder again, with all subfolders");
  }
  auto value = parse_json(*text, name);
  if (!value.ok()) return Status::config(value.status().message());
  return value;
}

// The names of the ways of pooling that a Pooling module's configuration asks for, all at once.
Result<std::vector<std::string>> modes_of(const JsonReader& config) {
  std::vector<std::string> names;
  const json::value* mode = config.find("pooling_mode");
  if (mode != nullptr && mode->is_string()) {
    names.emplace_back(mode->get_string());
  } else if (mode != nullptr && mode->is_array()) {
    for (const json::value& item : mode->get_array()) {
      if (!item.is_string()) return config.type_error("pooling_mode", "names of ways to pool");
      names.emplace_back(item.get_string());
    }
  } else if (mode != nullptr) {
    return config.type_error("pooling_mode", "a string or a list");
  } else {
    for (const Mode& each : kModes) {
      QUIRE_ASSIGN_OR_RETURN(const auto wanted, config.find_bool(each.key));
      if (wanted.value_or(false)) names.emplace_back(each.name);
    }
  }
  if (names.empty()) names.emplace_back("mean");
  return names;
}

Result<Pooling> pooling_of(const JsonReader& config) {
  QUIRE_ASSIGN_OR_RETURN(const auto names, modes_of(config));
  if (names.size() > 1) {
    return Status::config(
        fmt::format("{}: the vectors of several ways to pool are joined ({}), which Quire does not "
                    "do",
                    config.where(), printable(fmt::format("{}", fmt::join(names, ", ")))),
        kOverride);
  }
  for (const Mode& mode : kModes) {
    if (mode.name != names[0]) continue;
    if (mode.pooling) return *mode.pooling;
    const bool by_key = !config.contains("pooling_mode");
    return Status::config(fmt::format("{}: {}: Quire does not pool so", config.where(),
                                      by_key ? mode.key : "pooling_mode " + std::string(mode.name)),
                          kOverride);
  }
  return Status::config(fmt::format("{}: pooling_mode {}: no such kind of pooling", config.where(),
                                    printable(names[0])),
                        kOverride);
}

// A path below the model's folder: what modules.json names comes with the model.
bool is_below(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return !normal.empty() && normal.is_relative() && *normal.begin() != "..";
}

Result<Pooling> read_pooling(const fs::path& folder, const std::string& path, std::string& source) {
  if (!is_below(path)) {
    return Status::config(
        fmt::format("{}: path {}: not below the model's folder", kModules, printable(path)));
  }
  source = printable((fs::path(path) / "config.json").string());
  QUIRE_ASSIGN_OR_RETURN(const auto config, read_json(folder, path + "/config.json"));
  if (!config.is_object()) {
    return Status::config(fmt::format("{}: expected an object", source));
  }
  return pooling_of(JsonReader(config.get_object(), source, StatusCode::kConfig));
}

Status read_modules(const fs::path& folder, EmbeddingDefaults& defaults) {
  QUIRE_ASSIGN_OR_RETURN(const auto modules, read_json(folder, std::string(kModules)));
  if (!modules.is_array()) return Status::config(fmt::format("{}: expected a list", kModules));
  bool pools = false;
  defaults.normalize = false;
  for (const json::value& item : modules.get_array()) {
    if (!item.is_object()) return Status::config(fmt::format("{}: expected objects", kModules));
    const JsonReader module(item.get_object(), std::string(kModules), StatusCode::kConfig);
    QUIRE_ASSIGN_OR_RETURN(const std::string type, module.get_string("type"));
    // Its place in the library differs from release to release.
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Pooling" && !pools) {
      pools = true;
      QUIRE_ASSIGN_OR_RETURN(const std::string path, module.get_string("path"));
      const auto pooling = read_pooling(folder, path, defaults.source);
      if (pooling.ok()) defaults.pooling = *pooling;
      defaults.pooling_error = pooling.status();
    } else if (name == "Normalize") {
      defaults.normalize = true;
    } else if (name != "Transformer" && name != "Dropout") {  // which does nothing but in training
      return Status::config(
          fmt::format("{}: its module {} is not supported", kModules, printable(type)),
          "use a model whose modules are Transformer, Pooling and Normalize");
    }
  }
  if (!pools) {
    defaults.pooling_error =
        Status::config(fmt::format("{}: there is no module Pooling", kModules), kOverride);
  }
  return {};
}

// llama.cpp's numbers.
Result<Pooling> pooling_of_number(const std::string& key, std::int64_t number) {
  constexpr std::array kNames = {"none", "mean", "cls", "last", "rank"};
  switch (number) {
    case 1:
      return Pooling::kMean;
    case 2:
      return Pooling::kCls;
    case 3:
      return Pooling::kLast;
    default:
      break;
  }
  const bool known = number >= 0 && number < std::ssize(kNames);
  return Status::config(
      fmt::format("{} is {}{}: that gives no embedding", key, number,
                  known ? fmt::format(" ({})", kNames[static_cast<std::size_t>(number)]) : ""),
      kOverride);
}

}  // namespace

EmbeddingDefaults read_embedding_defaults(const ModelFiles& files) {
  EmbeddingDefaults defaults;
  if (!files.modules) return defaults;
  defaults.source = kModules;
  defaults.error = read_modules(files.path, defaults);
  return defaults;
}

EmbeddingDefaults read_embedding_defaults(const GgufFile& file) {
  EmbeddingDefaults defaults;
  const auto architecture = file.find_string("general.architecture");
  if (!architecture.ok() || !*architecture) return defaults;
  const std::string key = **architecture + ".pooling_type";
  const auto number = file.find_int(key);
  if (!number.ok()) {
    defaults.source = key;
    defaults.pooling_error = Status::config(fmt::format("{}: expected a number", key), kOverride);
  } else if (*number) {
    defaults.source = key;
    const auto pooling = pooling_of_number(key, **number);
    if (pooling.ok()) defaults.pooling = *pooling;
    defaults.pooling_error = pooling.status();
  }
  return defaults;
}

}  // namespace quire
