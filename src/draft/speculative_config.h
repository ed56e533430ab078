// What `--speculative-config` says, in vLLM's JSON: which drafter guesses tokens, and how many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

enum class SpeculativeMethod : std::uint8_t {
  kNgram,
  kSuffix,
  kDraftModel,
  kMtp,
  kEagle,
  kMedusa,
  kEagle3
};

struct SpeculativeConfig {
  static constexpr std::int32_t kMaxTokens = 32;  // drafts of a request in one step
  static constexpr std::int32_t kMaxLookup = 64;  // tokens that a match is compared over
  static constexpr std::int32_t kMaxCachedRequests = 10'000;
  static constexpr std::int32_t kMaxTreeWidth = 8;

  SpeculativeMethod method = SpeculativeMethod::kNgram;
  std::int32_t num_speculative_tokens = 0;  // in [1, kMaxTokens]
  std::string model = {};  // of methods with one: where it lies, as EngineArgs::model
  // Of methods that compute: the tree whose guesses are made as far as they are worth it
  // (draft/token_tree.h), its parents as DraftTreeView's; empty: chains.
  std::vector<std::int32_t> token_tree = {};
  // ngram: a match has at least and at most so many tokens.
  std::int32_t prompt_lookup_min = 5;
  std::int32_t prompt_lookup_max = 5;
  // suffix. A match is compared over so many tokens;
  std::int32_t suffix_max_tree_depth = 24;
  // outputs of others that are looked up besides the request itself: none unless they are allowed,
  // for who measures times could learn of them, as with a shared prefix cache;
  std::int32_t suffix_max_cached_requests = 0;
  // so many drafts for each token of the match;
  double suffix_max_spec_factor = 1.0;
  // none that followed the match less often than this;
  double suffix_min_token_prob = 0.1;
  // and paths of a tree of drafts, where several tokens followed; 1: a chain.
  std::int32_t suffix_max_tree_width = 1;

  // Whether guesses are computed, between two steps.
  bool computes() const { return method >= SpeculativeMethod::kDraftModel; }
  // Whether from the states of the model that is drafted for.
  bool reads_states() const { return method >= SpeculativeMethod::kMtp; }

  // Paths of a request's drafts in a step, at most.
  std::int32_t max_draft_paths() const;

  // The JSON object; nullopt for an empty one. kInvalidArgument for what it cannot say,
  // kUnimplemented for a method of vLLM's that Quire does not have; both name key and value.
  static Result<std::optional<SpeculativeConfig>> parse(std::string_view text);

  std::string to_text() const;  // for logs: "ngram, 5 tokens, lookup 2 to 5"
};

std::string_view speculative_method_name(SpeculativeMethod method);

}  // namespace quire
