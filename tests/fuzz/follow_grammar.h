// What the fuzzers of grammars do with one that was read: compile it within small limits, follow it
// by tokens of its masks, and check what matchers promise.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/grammar/grammar_matcher.h"

inline quire::GrammarLimits fuzz_grammar_limits() {
  quire::GrammarLimits limits;
  limits.max_source_bytes = 4096;
  limits.max_states = 2000;
  limits.max_edges = 20'000;
  limits.max_depth = 40;
  limits.max_set_items = 500;
  limits.max_cache_bytes = 1U << 20;
  return limits;
}

inline const std::shared_ptr<const quire::GrammarVocabulary>& fuzz_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<quire::GrammarVocabulary::Token> tokens;
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back({.bytes = std::string(1, static_cast<char>(byte)), .name = ""});
    }
    for (const char* piece :
         {"ab", "aab", "\",", "\": \"", " the", "\xC3\xA9", "12", "((", "a\nb"}) {
      tokens.push_back({.bytes = piece, .name = piece});
    }
    tokens.push_back({.bytes = "", .name = "<|special|>"});
    tokens.push_back({.bytes = "", .name = "<|end|>", .is_end = true});
    return quire::GrammarVocabulary::create(tokens);
  }();
  return vocabulary;
}

// An error has a message, and is none of Quire's.
inline void check_grammar_error(const quire::Status& status) {
  if (status.message().empty() || status.code() == quire::StatusCode::kInternal) std::abort();
}

inline void follow_grammar(const quire::Grammar& grammar) {
  const auto compiled = quire::compile_grammar(grammar, fuzz_vocabulary(), fuzz_grammar_limits());
  if (!compiled.ok()) return check_grammar_error(compiled.status());
  quire::GrammarMatcher matcher(*compiled);
  std::vector<std::uint32_t> words(fuzz_vocabulary()->mask_words());
  std::vector<std::uint32_t> first;
  for (std::size_t step = 0; step < 24 && !matcher.is_finished(); ++step) {
    const quire::Status status = matcher.fill_mask(words);
    if (!status.ok()) {
      // All bytes are tokens, so that what is begun can be ended; but not every reading can be
      // kept.
      if (status.code() != quire::StatusCode::kResourceExhausted) std::abort();
      return;
    }
    if (step == 0) first = words;
    std::vector<quire::TokenId> allowed;
    for (quire::TokenId id = 0; id < static_cast<quire::TokenId>(fuzz_vocabulary()->size()); ++id) {
      const auto index = static_cast<std::size_t>(id);
      const bool in_mask = (words[index / 32] >> (index % 32) & 1) != 0;
      if (in_mask != matcher.allows(id)) std::abort();
      if (in_mask) allowed.push_back(id);
    }
    if (matcher.can_end() != (allowed.back() == fuzz_vocabulary()->end_ids()[0])) std::abort();
    const std::string forced = matcher.forced_text(8);
    if (!forced.empty()) {
      quire::GrammarMatcher fork = matcher;
      if (!fork.accept_text(forced)) std::abort();
    }
    if (!matcher.accept(allowed[(step * 7919) % allowed.size()])) std::abort();
  }
  matcher.rollback(matcher.num_accepted());
  if (!matcher.fill_mask(words).ok() || words != first) std::abort();
}
