// Recognizes, by their first bytes, files that people mistake for checkpoints.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quire {

enum class FileKind {
  kUnknown,
  kGguf,
  kSafetensors,
  kGitLfsPointer,
  kZip,
  kPickle,
  kGzip,
  kHtml,
  kOldGgml,
  kJson,
};

FileKind recognize_file(std::span<const std::byte> bytes);

// kBadModel "FILE: expected a GGUF file, found a gzip archive", with what to do about that kind.
Status wrong_file_kind(std::string_view file, std::string_view expected, FileKind found);

// True for the names of PyTorch pickles (.bin, .pt, .pth, .ckpt, .pkl). Reading one can run code
// that it carries, so none is ever opened.
bool is_pickle_name(const std::filesystem::path& path);

// kBadModel saying why `path`, a pickle, is not loaded and what to use in its place.
Status pickle_refused(const std::filesystem::path& path);

}  // namespace quire
