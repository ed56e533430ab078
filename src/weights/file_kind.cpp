#include "weights/file_kind.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "weights/byte_cursor.h"
#include "weights/safetensors.h"

namespace quire {
namespace {

struct Magic {
  std::string_view bytes;
  FileKind kind;
};

// In lower case: compared without regard to case, which HTML needs and the others survive.
constexpr Magic kMagics[] = {
    {"gguf", FileKind::kGguf},           {"version https://git-lfs", FileKind::kGitLfsPointer},
    {"pk\x03\x04", FileKind::kZip},      {"\x1f\x8b", FileKind::kGzip},
    {"<!doctype html", FileKind::kHtml}, {"<html", FileKind::kHtml},
    {"lmgg", FileKind::kOldGgml},        {"tjgg", FileKind::kOldGgml},
    {"fmgg", FileKind::kOldGgml},        {"{", FileKind::kJson},
};

bool is_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[8] == std::byte{'{'} &&
         load_le<std::uint64_t>(bytes.data()) <= kSafetensorsMaxHeaderBytes;
}

}  // namespace

FileKind recognize_file(std::span<const std::byte> bytes) {
  // First, since a safetensors file begins with a number that may look like another's magic.
  if (is_safetensors(bytes)) return FileKind::kSafetensors;
  std::string start(reinterpret_cast<const char*>(bytes.data()),
                    std::min<std::size_t>(bytes.size(), 32));
  std::ranges::transform(start, start.begin(), [](unsigned char c) {
    return static_cast<char>(c < 0x80 ? std::tolower(c) : c);
  });
  for (const Magic& magic : kMagics) {
    if (std::string_view(start).starts_with(magic.bytes)) return magic.kind;
  }
  // Protocols 2 to 5 of Python's pickle.
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return FileKind::kPickle;
  }
  return FileKind::kUnknown;
}

Status wrong_file_kind(std::string_view file, std::string_view expected, FileKind found) {
  std::string_view noun;
  std::string_view remedy;
  switch (found) {
    case FileKind::kUnknown:
      noun = "bytes of an unknown kind";
      remedy = "fetch the file again";
      break;
    case FileKind::kGguf:
      noun = "a GGUF file";
      remedy = "name it .gguf and give its path";
      break;
    case FileKind::kSafetensors:
      noun = "a safetensors file";
      remedy = "give the path of its folder, with config.json and tokenizer.json beside it";
      break;
    case FileKind::kGitLfsPointer:
      noun = "a Git LFS pointer, not the file itself";
      remedy = "fetch the file with `git lfs pull`";
      break;
    case FileKind::kZip:
      noun = "a zip archive (PyTorch checkpoints are such)";
      remedy = "unpack it, or use the model's safetensors or GGUF files";
      break;
    case FileKind::kPickle:
      noun = "a Python pickle";
      remedy = "pickles can run code and are not loaded; use safetensors or GGUF";
      break;
    case FileKind::kGzip:
      noun = "a gzip archive";
      remedy = "unpack it first";
      break;
    case FileKind::kHtml:
      noun = "an HTML page";
      remedy = "a web page was saved in place of the file; fetch the file again";
      break;
    case FileKind::kOldGgml:
      noun = "a file of a GGML format older than GGUF";
      remedy = "convert the model to GGUF";
      break;
    case FileKind::kJson:
      noun = "a JSON text";
      remedy = "fetch the file again";
      break;
  }
  return Status::bad_model(fmt::format("{}: expected {}, found {}", file, expected, noun),
                           std::string(remedy));
}

bool is_pickle_name(const std::filesystem::path& path) {
  constexpr std::string_view kExtensions[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
  return std::ranges::find(kExtensions, path.extension().string()) != std::end(kExtensions);
}

Status pickle_refused(const std::filesystem::path& path) {
  return Status::bad_model(
      fmt::format("{} is a pickle, which can run code when it is read, and is not loaded",
                  path.string()),
      "use the model's safetensors or GGUF files, or convert it to safetensors");
}

}  // namespace quire
