// The whole of an answer as a grammar: reasoning, text, calls.
#include <algorithm>
#include <vector>

#include "text/dialects/answer_form.h"
#include "text/dialects/call_grammar.h"
#include "text/dialects/dialect_marks.h"
#include "text/grammar/grammar_include.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 5> kMessageMarks = {"<|end|>", "<|call|>", "<|return|>",
                                                           "<|start|>", "<|channel|>"};

class AnswerGrammar {
 public:
  AnswerGrammar(const AnswerForm& form, const Grammar* content, const GrammarVocabulary& vocabulary,
                GrammarBuilder& builder)
      : form_(form), content_(content), builder_(builder), marks_(vocabulary, builder) {
    if (form.calls) calls_.emplace(*form.calls, vocabulary, builder);
  }

  Result<Grammar> build() {
    if (calls_) QUIRE_RETURN_IF_ERROR(calls_->prepare());
    const bool channels = (form_.reasoning != nullptr && form_.reasoning->channels) ||
                          (form_.calls && form_.calls->dialect->channels);
    QUIRE_ASSIGN_OR_RETURN(const ExprId answer, channels ? messages() : marked_answer());
    const RuleId root = builder_.add_rule("answer");
    builder_.define(root, answer);
    return builder_.build(root);
  }

 private:
  bool required() const { return form_.calls && form_.calls->required; }

  // Any text without the marks of calls and `others`.
  Result<Dfa> free_text(std::vector<std::string_view> others) {
    if (form_.calls) {
      const auto& begin = form_.calls->dialect->begin;
      others.insert(others.end(), begin.begin(), begin.end());
    }
    return text_without(others, builder_.budget());
  }

  Result<ExprId> marked_answer() {
    QUIRE_ASSIGN_OR_RETURN(const ExprId rest, rest_of_answer());
    const ReasoningDialect* reasoning = form_.reasoning;
    if (reasoning == nullptr || form_.start == ReasoningStart::kClosed) return rest;
    QUIRE_ASSIGN_OR_RETURN(Dfa thoughts, free_text({reasoning->end}));
    const ExprId gap =
        builder_.choice({builder_.empty(), builder_.literal("\n"), builder_.literal("\n\n")});
    const ExprId inside =
        builder_.seq({builder_.regular(std::move(thoughts)), marks_.mark(reasoning->end), gap});
    const ExprId begin = marks_.mark(reasoning->begin);
    const bool open = form_.start == ReasoningStart::kOpen || reasoning->from_start;
    const RuleId rule = builder_.add_rule("rest of the answer");
    builder_.define(rule, rest);
    if (open) return builder_.seq({builder_.optional(begin), inside, builder_.rule(rule)});
    return builder_.seq({builder_.optional(builder_.seq({begin, inside})), builder_.rule(rule)});
  }

  // Behind reasoning.
  Result<ExprId> rest_of_answer() {
    if (required()) return calls_->calls();
    if (content_ != nullptr) {
      const ExprId content = include_grammar(*content_, builder_);
      return calls_ ? builder_.choice({content, calls_->calls()}) : content;
    }
    QUIRE_ASSIGN_OR_RETURN(Dfa text, free_text({}));
    if (!calls_) return builder_.regular(std::move(text));
    const ToolDialect& dialect = *form_.calls->dialect;
    if (!dialect.bare) {
      return builder_.seq(
          {builder_.regular(std::move(text)), builder_.optional(calls_->marked_calls())});
    }
    // What begins as a call does has to be one.
    const bool list = dialect.list == ListForm::kRequired;
    QUIRE_ASSIGN_OR_RETURN(Dfa opens, regex_to_dfa(list ? "[ \\t\\r\\n]*\\[" : "[ \\t\\r\\n]*\\{",
                                                   RegexOptions(), builder_.budget()));
    QUIRE_ASSIGN_OR_RETURN(opens, dfa_with_any_rest(opens, builder_.budget()));
    QUIRE_ASSIGN_OR_RETURN(text, dfa_difference(text, opens, builder_.budget()));
    const ExprId free = builder_.regular(std::move(text));
    return builder_.choice(
        {calls_->calls(), builder_.seq({free, builder_.optional(calls_->marked_calls())})});
  }

  ExprId message(std::string_view channel, ExprId text, bool last) {
    const ExprId body = builder_.seq(
        {marks_.mark("<|channel|>"), builder_.literal(channel), marks_.mark("<|message|>"), text});
    if (last) return body;
    return builder_.seq(
        {body, marks_.mark("<|end|>"), marks_.mark("<|start|>"), builder_.literal("assistant")});
  }

  // Harmony's.
  Result<ExprId> messages() {
    QUIRE_ASSIGN_OR_RETURN(Dfa plain, text_without(kMessageMarks, builder_.budget()));
    const ExprId text = builder_.regular(std::move(plain));
    std::vector<ExprId> before = {message("analysis", text, /*last=*/false)};
    std::vector<ExprId> last;
    if (!required()) {
      const ExprId content = content_ != nullptr ? include_grammar(*content_, builder_) : text;
      last.push_back(message("final", content, /*last=*/true));
      if (calls_) before.push_back(message("commentary", text, /*last=*/false));
    }
    if (calls_) last.push_back(calls_->channel_call());
    return builder_.seq(
        {builder_.repeat(builder_.choice(before), 0, std::nullopt), builder_.choice(last)});
  }

  const AnswerForm& form_;
  const Grammar* content_;
  GrammarBuilder& builder_;
  DialectMarks marks_;
  std::optional<CallGrammar> calls_;
};

}  // namespace

Result<Grammar> answer_grammar(const AnswerForm& form, const Grammar* content,
                               const GrammarVocabulary& vocabulary, GrammarBudget& budget) {
  GrammarBuilder builder(budget);
  return AnswerGrammar(form, content, vocabulary, builder).build();
}

}  // namespace quire
