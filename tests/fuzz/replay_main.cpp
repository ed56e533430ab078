// Runs a fuzz target on every file of its corpus, as an ordinary test.
//   replay_<target> CORPUS_FOLDER
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 64;
  }
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(argv[1], error), end; at != end;
       at.increment(error)) {
    files.push_back(at->path());
  }
  std::ranges::sort(files);
  if (error || files.empty()) {
    std::fprintf(stderr, "%s: no corpus\n", argv[1]);
    return 1;
  }
  for (const auto& file : files) {
    const auto bytes = quire::read_file(file.string(), 1U << 20);
    if (!bytes.ok()) {
      std::fprintf(stderr, "%s\n", bytes.status().to_string().c_str());
      return 1;
    }
    std::printf("%s\n", file.filename().c_str());  // the last one printed is the one that failed
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size());
  }
  return 0;
}
