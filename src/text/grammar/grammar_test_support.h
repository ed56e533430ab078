// A second, slow opinion on grammars: which texts a Grammar has, by its definition alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace quire {

// Where texts of each rule may end, by where they begin, as the least solution of what the rules
// say: found by asking again until nothing is new.
class ReferenceRecognizer {
 public:
  ReferenceRecognizer(const Grammar& grammar, std::string_view text)
      : grammar_(&grammar), text_(text) {
    do {
      changed_ = false;
      for (RuleId rule = 0; rule < grammar.rules.size(); ++rule) {
        for (std::size_t at = 0; at <= text.size(); ++at) {
          auto& known = ends_[{rule, at}];
          const std::size_t before = known.size();
          known.merge(std::set(ends(grammar.rules[rule].body, at)));
          if (known.size() != before) changed_ = true;
        }
      }
    } while (changed_);
  }

  bool matches() { return ends_[{grammar_->root, 0}].contains(text_.size()); }

 private:
  using Ends = std::set<std::size_t>;

  Ends ends_of_automaton(const GrammarExpr& expr, std::size_t at) {
    const Dfa& dfa = *grammar_->languages[expr.index];
    using Place = std::pair<std::int32_t, std::size_t>;
    std::set<Place> places;
    std::vector<Place> todo = {{dfa.start(), at}};
    Ends result;
    while (!todo.empty()) {
      const Place place = todo.back();
      todo.pop_back();
      if (place.first == Dfa::kDead || !places.insert(place).second) continue;
      if (dfa.accepts(place.first)) result.insert(place.second);
      if (place.second < text_.size()) {
        const auto byte = static_cast<unsigned char>(text_[place.second]);
        todo.emplace_back(dfa.next(place.first, byte), place.second + 1);
      }
      for (std::size_t i = 0; i < expr.children.size(); ++i) {
        const auto column = kFirstPartColumn + static_cast<std::uint32_t>(i);
        for (const std::size_t end : ends(expr.children[i], place.second)) {
          todo.emplace_back(dfa.next(place.first, column), end);
        }
      }
    }
    return result;
  }

  Ends behind(ExprId expr, const Ends& begins) {
    Ends result;
    for (const std::size_t at : begins) result.merge(ends(expr, at));
    return result;
  }

  Ends ends(ExprId id, std::size_t at) {
    const GrammarExpr& expr = grammar_->exprs[id];
    switch (expr.kind) {
      case GrammarExpr::Kind::kRegular: {
        Ends result;
        const Dfa& dfa = *grammar_->languages[expr.index];
        for (std::size_t size = 0; at + size <= text_.size(); ++size) {
          if (dfa.matches(text_.substr(at, size))) result.insert(at + size);
        }
        return result;
      }
      case GrammarExpr::Kind::kSequence: {
        Ends result = {at};
        for (const ExprId child : expr.children) result = behind(child, result);
        return result;
      }
      case GrammarExpr::Kind::kChoice: {
        Ends result;
        for (const ExprId child : expr.children) result.merge(ends(child, at));
        return result;
      }
      case GrammarExpr::Kind::kRepeat: {
        Ends reached = {at};
        for (std::uint32_t i = 0; i < expr.min; ++i) reached = behind(expr.children[0], reached);
        Ends all = reached;
        for (std::uint32_t i = expr.min; i < expr.max; ++i) {
          reached = behind(expr.children[0], reached);
          const std::size_t before = all.size();
          all.insert(reached.begin(), reached.end());
          if (all.size() == before) break;
        }
        return all;
      }
      case GrammarExpr::Kind::kGraph: {
        using Place = std::pair<std::uint32_t, std::size_t>;
        std::set<Place> places = {{0, at}};
        std::vector<Place> todo = {{0, at}};
        Ends result;
        while (!todo.empty()) {
          const Place place = todo.back();
          todo.pop_back();
          if (place.first == 1) result.insert(place.second);
          for (const GrammarEdge& edge : grammar_->graphs[expr.index]) {
            if (edge.from != place.first) continue;
            for (const std::size_t end : ends(edge.part, place.second)) {
              if (places.emplace(edge.to, end).second) todo.emplace_back(edge.to, end);
            }
          }
        }
        return result;
      }
      case GrammarExpr::Kind::kRule:
        return ends_[{expr.index, at}];
      case GrammarExpr::Kind::kAutomaton:
        return ends_of_automaton(expr, at);
      case GrammarExpr::Kind::kOpen: {
        Ends result;
        for (std::size_t size = 0; at + size <= text_.size(); ++size) {
          if (grammar_->open[expr.index]->matches(text_.substr(at, size))) result.insert(at + size);
        }
        return result;
      }
      case GrammarExpr::Kind::kToken:
      case GrammarExpr::Kind::kNamedToken:
        break;  // no text
    }
    return {};
  }

  const Grammar* grammar_;
  std::string_view text_;
  std::map<std::pair<RuleId, std::size_t>, Ends> ends_;
  bool changed_ = false;
};

inline bool reference_matches(const Grammar& grammar, std::string_view text) {
  return ReferenceRecognizer(grammar, text).matches();
}

// All texts over `letters` with at most `most` of them, shorter ones first.
inline std::vector<std::string> all_texts(std::string_view letters, std::size_t most) {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < texts.size() && texts[i].size() < most; ++i) {
    for (const char letter : letters) texts.push_back(texts[i] + letter);
  }
  return texts;
}

}  // namespace quire
