// From what a request asks of its text to a grammar that masks are filled from. Compiling may take
// long, so it is never done on the engine's thread; what was compiled is kept for the requests that
// ask for the same.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/status.h"
#include "core/structured_outputs.h"
#include "engine/constraints/constraint_work.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/tokenizer.h"

namespace quire {

class ConstraintCompiler {
 public:
  // What is kept, the least recently used goes first.
  static constexpr std::size_t kMaxKept = 64;
  // Masks and parse sets that one grammar keeps (GrammarLimits::max_cache_bytes).
  static constexpr std::size_t kMaxGrammarBytes = std::size_t{8} << 20;
  // Rules within rules (GrammarLimits::max_depth) of structural tags, calls among them: no more
  // levels of JSON than who reads calls accepts.
  static constexpr std::uint32_t kMaxAnswerDepth = 250;

  // `tokenizer` outlives it; the model's logits are of `vocab_size` tokens, which may be more.
  // Nothing is computed yet.
  ConstraintCompiler(const Tokenizer& tokenizer, std::size_t vocab_size)
      : tokenizer_(tokenizer), vocab_size_(vocab_size) {}

  // What is kept, or compiled now; where another thread compiles the same, waits for it.
  // `cancelled`, which may be empty, is asked meanwhile. kInvalidArgument, beginning with
  // `constraint.field`, for what is wrong with it or beyond a limit; kUnimplemented, likewise, for
  // what is not there yet; kCancelled.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const StructuredOutputsParams& constraint,
                                                         const std::function<bool()>& cancelled);
  // The same for a request that begins now.
  Result<RequestConstraint> use(const StructuredOutputsParams& constraint);
  // Whether compile() would answer at once.
  bool is_kept(const StructuredOutputsParams& constraint) const;

 private:
  // A grammar, or why there is none: what is wrong once is wrong again.
  struct Kept {
    std::string key;
    Status status;
    std::shared_ptr<const CompiledGrammar> grammar;
    double compile_ms = 0;
    bool used = false;  // by a request that has begun
  };
  using Uses = std::list<Kept>;  // the latest first

  Kept compile_now(const StructuredOutputsParams& constraint,
                   const std::function<bool()>& cancelled);
  std::shared_ptr<const GrammarVocabulary> vocabulary();
  void keep(Kept kept);

  const Tokenizer& tokenizer_;
  const std::size_t vocab_size_;
  std::mutex vocabulary_mutex_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;  // made for the first constraint

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable compiled_;
  Uses uses_;
  std::unordered_map<std::string_view, Uses::iterator> kept_;  // by Kept::key
  std::unordered_set<std::string> compiling_;                  // keys
};

}  // namespace quire
