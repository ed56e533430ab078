#include "load/space_steps.h"

#include <string>
#include <string_view>

namespace quire {

void append_space_steps(bool prefix, VocabData& data) {
  constexpr std::string_view kSpaceSymbol = "\u2581";
  if (prefix) {
    data.normalizers.push_back(
        {.kind = NormalizerStep::Kind::kPrepend, .content = std::string(kSpaceSymbol)});
  }
  data.normalizers.push_back({.kind = NormalizerStep::Kind::kReplace,
                              .pattern = {" ", /*is_regex=*/false},
                              .content = std::string(kSpaceSymbol)});
  data.decoders.push_back({.kind = DecoderStep::Kind::kReplace,
                           .pattern = {std::string(kSpaceSymbol), /*is_regex=*/false},
                           .content = " "});
  data.decoders.push_back({.kind = DecoderStep::Kind::kByteFallback});
  data.decoders.push_back({.kind = DecoderStep::Kind::kFuse});
  if (prefix) {
    data.decoders.push_back({.kind = DecoderStep::Kind::kStrip, .content = " ", .start = 1});
  }
}

}  // namespace quire
