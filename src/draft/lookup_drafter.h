// What drafters that look up have in common: they follow the texts of requests.
#pragma once

#include <utility>
#include <vector>

#include "draft/drafter.h"
#include "draft/request_texts.h"

namespace quire {

class LookupDrafter : public Drafter {
 public:
  LookupDrafter(std::vector<std::int32_t> grams, std::uint64_t max_bytes)
      : texts_(std::move(grams), max_bytes) {
    matches_.reserve(TokenIndex::kMaxVisited);
  }

  bool begin(const DraftedRequest& request) override {
    return texts_.begin(request.id, request.max_tokens);
  }
  void read(RequestId request_id, std::span<const TokenId> tokens) override {
    texts_.read(request_id, tokens);
  }
  DraftWork draft(std::span<const DraftWish> wishes) override {
    for (const DraftWish& wish : wishes) {
      const TokenIndex* const index = texts_.read(wish.request_id, wish.tokens);
      if (index != nullptr && wish.most > 0) look_up(*index, wish.tokens, wish.most, *wish.draft);
    }
    return DraftWork::kNone;
  }
  void end(RequestId request_id, std::span<const TokenId> /*output*/) override {
    texts_.end(request_id);
  }

 protected:
  // Up to `most` > 0 guesses at what follows `tokens`, of which all but the last are in `index`,
  // into a draft that is empty.
  virtual void look_up(const TokenIndex& index, std::span<const TokenId> tokens, std::int32_t most,
                       Draft& draft) = 0;

  std::vector<TokenIndex::Match>& matches() { return matches_; }

 private:
  RequestTexts texts_;
  std::vector<TokenIndex::Match> matches_;  // kept from call to call
};

}  // namespace quire
