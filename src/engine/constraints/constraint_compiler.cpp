#include "engine/constraints/constraint_compiler.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "engine/constraints/constraint_grammar.h"

namespace quire {
namespace {

// How often a thread that waits for another's compilation looks whether it still should.
constexpr std::chrono::milliseconds kLook{20};

// All that a grammar depends on; texts with their lengths, so that no two run together.
std::string key_of(const StructuredOutputsParams& constraint) {
  std::string key;
  key.reserve(constraint.num_bytes() + 64);
  const auto add = [&key](char kind, std::string_view text) {
    key += kind;
    key += std::to_string(text.size());
    key += ':';
    key += text;
  };
  if (constraint.json) add('j', *constraint.json);
  if (constraint.regex) add('r', *constraint.regex);
  for (const std::string& each : constraint.choice) add('c', each);
  if (constraint.grammar) add('g', *constraint.grammar);
  if (constraint.json_object) key += 'o';
  if (constraint.structural_tag) add('t', text_without_budget(*constraint.structural_tag));
  if (constraint.disable_any_whitespace) key += 'w';
  if (constraint.disable_additional_properties) key += 'a';
  if (constraint.whitespace_pattern) add('p', *constraint.whitespace_pattern);
  return key;
}

// Of a constraint that its request calls `field`. What is beyond a limit is the request's fault,
// and no reason to come again.
Status told(const Status& status, const std::string& field) {
  const StatusCode code = status.code() == StatusCode::kResourceExhausted
                              ? StatusCode::kInvalidArgument
                              : status.code();
  return {code, fmt::format("{}: {}", field, status.message()), status.remedy()};
}

}  // namespace

Result<std::shared_ptr<const CompiledGrammar>> ConstraintCompiler::compile(
    const StructuredOutputsParams& constraint, const std::function<bool()>& cancelled) {
  std::string key = key_of(constraint);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = kept_.find(key);
    if (found != kept_.end()) {
      uses_.splice(uses_.begin(), uses_, found->second);
      const Kept& kept = *found->second;
      if (!kept.status.ok()) return told(kept.status, constraint.field);
      return kept.grammar;
    }
    if (compiling_.insert(key).second) break;
    compiled_.wait_for(lock, kLook);
    if (cancelled && cancelled()) {
      return Status(StatusCode::kCancelled, "nobody waits for the answer any more");
    }
  }
  lock.unlock();
  Kept made;
  try {
    made = compile_now(constraint, cancelled);
  } catch (...) {
    lock.lock();
    compiling_.erase(key);
    compiled_.notify_all();
    throw;
  }
  lock.lock();
  compiling_.erase(key);
  compiled_.notify_all();
  made.key = std::move(key);
  const Status status = made.status;
  auto grammar = made.grammar;
  if (status.code() != StatusCode::kCancelled) keep(std::move(made));
  if (!status.ok()) return told(status, constraint.field);
  return grammar;
}

Result<RequestConstraint> ConstraintCompiler::use(const StructuredOutputsParams& constraint) {
  RequestConstraint request;
  QUIRE_ASSIGN_OR_RETURN(request.grammar, compile(constraint, {}));
  QUIRE_ASSIGN_OR_RETURN(request.reasoning, reasoning_budget(constraint, tokenizer_));
  request.work = std::make_shared<ConstraintWork>();
  request.work->told_in_prompt = constraint.told_in_prompt;
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key_of(constraint));
  if (found == kept_.end()) return request;  // others have pushed it out at once
  request.work->compile_ms = found->second->compile_ms;
  request.work->cached = std::exchange(found->second->used, true);
  return request;
}

bool ConstraintCompiler::is_kept(const StructuredOutputsParams& constraint) const {
  const std::string key = key_of(constraint);
  const std::lock_guard lock(mutex_);
  return kept_.contains(key);
}

ConstraintCompiler::Kept ConstraintCompiler::compile_now(const StructuredOutputsParams& constraint,
                                                         const std::function<bool()>& cancelled) {
  const std::int64_t start = steady_now_ns();
  GrammarLimits limits;
  limits.max_cache_bytes = kMaxGrammarBytes;
  if (constraint.structural_tag) limits.max_depth = kMaxAnswerDepth;
  Kept made;
  auto compiled = [&]() -> Result<std::shared_ptr<const CompiledGrammar>> {
    GrammarBudget budget(limits, cancelled);
    const auto tokens = vocabulary();
    QUIRE_ASSIGN_OR_RETURN(const Grammar grammar,
                           constraint_grammar(constraint, budget, tokens.get()));
    return compile_grammar(grammar, tokens, limits, cancelled);
  }();
  made.status = compiled.status();
  if (compiled.ok()) made.grammar = *std::move(compiled);
  made.compile_ms = static_cast<double>(steady_now_ns() - start) * 1e-6;
  return made;
}

std::shared_ptr<const GrammarVocabulary> ConstraintCompiler::vocabulary() {
  const std::lock_guard lock(vocabulary_mutex_);
  if (vocabulary_ == nullptr) vocabulary_ = GrammarVocabulary::create(tokenizer_, vocab_size_);
  return vocabulary_;
}

void ConstraintCompiler::keep(Kept kept) {
  uses_.push_front(std::move(kept));
  kept_.emplace(uses_.front().key, uses_.begin());
  if (uses_.size() <= kMaxKept) return;
  kept_.erase(uses_.back().key);
  uses_.pop_back();
}

}  // namespace quire
