#include "weights/checkpoint_state.h"

#include <fmt/format.h>

namespace quire {

std::string checkpoint_state(const WeightSource& source) {
  std::string state;
  for (const MappedFile* file : source.files()) {
    state +=
        fmt::format("{}{} of {} bytes written at {} ns", state.empty() ? "" : ", ",
                    file->path().filename().string(), file->bytes().size(), file->modified_ns());
  }
  return state;
}

}  // namespace quire
