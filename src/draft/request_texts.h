// The indexes of the requests that a drafter follows, within a limit of memory.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "draft/token_index.h"

namespace quire {

class RequestTexts {
 public:
  RequestTexts(std::vector<std::int32_t> grams, std::uint64_t max_bytes)
      : grams_(std::move(grams)), max_bytes_(max_bytes) {}

  bool begin(RequestId request_id, std::size_t max_tokens) {
    const std::uint64_t bytes = TokenIndex::bytes(max_tokens, grams_.size());
    if (bytes > max_bytes_ - used_bytes_) return false;
    if (!texts_.try_emplace(request_id, Text{TokenIndex(max_tokens, grams_), bytes}).second) {
      return false;
    }
    used_bytes_ += bytes;
    return true;
  }
  void end(RequestId request_id) {
    const auto found = texts_.find(request_id);
    if (found == texts_.end()) return;
    used_bytes_ -= found->second.bytes;
    texts_.erase(found);
  }
  // With all tokens but the last, which ends what is looked up; null where it is not followed.
  const TokenIndex* read(RequestId request_id, std::span<const TokenId> tokens) {
    const auto found = texts_.find(request_id);
    if (found == texts_.end()) return nullptr;
    if (!tokens.empty()) found->second.index.extend(tokens, tokens.size() - 1);
    return &found->second.index;
  }
  std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  struct Text {
    TokenIndex index;
    std::uint64_t bytes = 0;
  };
  std::vector<std::int32_t> grams_;
  std::uint64_t max_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::unordered_map<RequestId, Text> texts_;
};

}  // namespace quire
