#include <algorithm>

#include "draft/drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"

namespace quire {
namespace {

std::size_t num_grams(const SpeculativeConfig& config) {
  return config.method == SpeculativeMethod::kNgram ? NgramDrafter::grams(config).size()
                                                    : SuffixDrafter::kGrams.size();
}

std::uint64_t request_bytes(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                            std::int64_t max_model_len) {
  const std::uint64_t each =
      TokenIndex::bytes(static_cast<std::size_t>(max_model_len), num_grams(config));
  // One request always has room.
  return std::max(each,
                  std::min(kMaxDrafterBytes, static_cast<std::uint64_t>(max_num_seqs) * each));
}

std::size_t shared_tokens(const SpeculativeConfig& config, std::int64_t max_model_len) {
  if (config.method != SpeculativeMethod::kSuffix) return 0;
  return static_cast<std::size_t>(
      std::min(kMaxSharedTokens, std::int64_t{config.suffix_max_cached_requests} * max_model_len));
}

}  // namespace

std::uint64_t drafter_bytes(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                            std::int64_t max_model_len) {
  const std::size_t shared = shared_tokens(config, max_model_len);
  const std::uint64_t requests = request_bytes(config, max_num_seqs, max_model_len);
  if (shared == 0) return requests;
  return requests + shared * sizeof(TokenId) + 2 * TokenIndex::bytes(shared / 2, num_grams(config));
}

std::unique_ptr<Drafter> make_lookup_drafter(const SpeculativeConfig& config,
                                             std::int64_t max_num_seqs,
                                             std::int64_t max_model_len) {
  const std::uint64_t bytes = request_bytes(config, max_num_seqs, max_model_len);
  if (config.method == SpeculativeMethod::kNgram) {
    return std::make_unique<NgramDrafter>(config, bytes);
  }
  return std::make_unique<SuffixDrafter>(config, bytes, shared_tokens(config, max_model_len));
}

}  // namespace quire
