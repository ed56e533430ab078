#include "draft/shared_outputs.h"

#include <algorithm>

namespace quire {

SharedOutputs::SharedOutputs(std::size_t max_tokens, std::size_t max_outputs,
                             std::span<const std::int32_t> grams)
    : max_tokens_(max_tokens / 2),
      max_outputs_((max_outputs + 1) / 2),
      halves_{Half{{}, 0, TokenIndex(max_tokens / 2, grams)},
              Half{{}, 0, TokenIndex(max_tokens / 2, grams)}} {
  for (Half& half : halves_) half.text.reserve(max_tokens_);
}

void SharedOutputs::add(std::span<const TokenId> output) {
  if (max_tokens_ < 2 || max_outputs_ == 0 || output.empty()) return;
  output = output.last(std::min(output.size(), max_tokens_ - 1));
  if (halves_[newer_].text.size() + output.size() + 1 > max_tokens_ ||
      halves_[newer_].num_outputs == max_outputs_) {
    newer_ = 1 - newer_;
    halves_[newer_].text.clear();
    halves_[newer_].num_outputs = 0;
    halves_[newer_].index.clear();
  }
  Half& half = halves_[newer_];
  half.text.insert(half.text.end(), output.begin(), output.end());
  half.text.push_back(kSeparator);
  ++half.num_outputs;
  half.index.extend(half.text, half.text.size());
}

}  // namespace quire
