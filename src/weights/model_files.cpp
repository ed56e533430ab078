#include "weights/model_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weights/file_kind.h"
#include "weights/gguf_split.h"
#include "weights/safetensors.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::optional<fs::path> if_present(const fs::path& path) {
  if (is_file(path)) return path;
  return std::nullopt;
}

// The files in `folder`, by name.
Result<std::vector<fs::path>> list_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_file(entry->path())) files.push_back(entry->path());
  }
  if (error) {
    return Status::io_error(
        fmt::format("cannot list the folder {}: {}", folder.string(), error.message()));
  }
  std::ranges::sort(files);
  return files;
}

// A file of another name than *.gguf may still be one (a cache names files by their hashes).
Result<ModelFiles> single_file(const fs::path& path) {
  if (path.extension() != ".gguf") {
    if (is_pickle_name(path)) return pickle_refused(path);
    std::array<std::byte, 64> start{};
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(start.data()), start.size());
    if (file.bad() || !(file || file.eof())) {
      return Status::io_error(fmt::format("cannot read {}", path.string()));
    }
    const FileKind kind =
        recognize_file(std::span(start).first(static_cast<std::size_t>(file.gcount())));
    if (kind != FileKind::kGguf) {
      return wrong_file_kind(path.string(), "a model folder or a GGUF file", kind);
    }
  }
  ModelFiles found;
  found.kind = ModelFiles::Kind::kGguf;
  found.path = path;
  found.generation_config = if_present(path.parent_path() / "generation_config.json");
  return found;
}

// What may lie beside the weights of a folder.
ModelFiles folder_files(const fs::path& folder) {
  ModelFiles found;
  found.path = folder;
  found.generation_config = if_present(folder / "generation_config.json");
  found.tokenizer = if_present(folder / "tokenizer.json");
  found.tokenizer_config = if_present(folder / "tokenizer_config.json");
  found.chat_template = if_present(folder / "chat_template.jinja");
  found.modules = if_present(folder / "modules.json");
  return found;
}

Result<ModelFiles> hugging_face_folder(const fs::path& folder) {
  ModelFiles found = folder_files(folder);
  found.kind = ModelFiles::Kind::kHuggingFace;
  found.config = if_present(folder / "config.json");
  if (!found.config) {
    return Status::not_found(fmt::format("{} has safetensors but no config.json", folder.string()),
                             "fetch config.json of the model into the folder");
  }
  return found;
}

Result<ModelFiles> mistral_folder(const fs::path& folder) {
  ModelFiles found = folder_files(folder);
  found.kind = ModelFiles::Kind::kMistral;
  found.params = if_present(folder / "params.json");
  if (!found.params) {
    return Status::not_found(
        fmt::format("{} has consolidated safetensors but no params.json", folder.string()),
        "fetch params.json of the model into the folder");
  }
  return found;
}

// Whether the folder has the weights NAME.safetensors, or its parts.
bool has_safetensors(const fs::path& folder, std::string_view name) {
  return is_file(folder / fmt::format("{}.safetensors", name)) ||
         is_file(folder / fmt::format("{}.safetensors.index.json", name));
}

Result<ModelFiles> model_folder(const fs::path& folder) {
  if (has_safetensors(folder, kHuggingFaceWeights)) return hugging_face_folder(folder);
  if (has_safetensors(folder, kMistralWeights)) return mistral_folder(folder);
  QUIRE_ASSIGN_OR_RETURN(const auto files, list_files(folder));
  std::vector<fs::path> ggufs;
  std::ranges::copy_if(files, std::back_inserter(ggufs), [](const fs::path& file) {
    // A split model is opened by its first part.
    const auto part = gguf_part_of_name(file);
    return file.extension() == ".gguf" && (!part || part->number == 1);
  });
  if (ggufs.size() == 1) return single_file(ggufs[0]);
  if (ggufs.size() > 1) {
    std::vector<std::string> names;
    names.reserve(ggufs.size());
    for (const fs::path& file : ggufs) names.push_back(file.filename().string());
    return Status::invalid_argument(fmt::format("{} holds {} GGUF files: {}", folder.string(),
                                                names.size(), fmt::join(names, ", ")),
                                    "give the path of one of them");
  }
  const auto pickle = std::ranges::find_if(files, is_pickle_name);
  if (pickle != files.end()) return pickle_refused(*pickle);
  return Status::not_found(
      fmt::format("{} holds no model: looked for model.safetensors, "
                  "model.safetensors.index.json, consolidated.safetensors and *.gguf",
                  folder.string()),
      "give a model folder in Hugging Face layout or a .gguf file");
}

}  // namespace

Result<ModelFiles> find_model_files(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Status::not_found(fmt::format("no file or folder {}", path.string()),
                             "check the path; give a model folder or a .gguf file");
  }
  if (fs::is_directory(status)) return model_folder(path);
  if (fs::is_regular_file(status)) return single_file(path);
  return Status::io_error(fmt::format("{} is neither a file nor a folder{}", path.string(),
                                      error ? " that can be read: " + error.message() : ""));
}

}  // namespace quire
