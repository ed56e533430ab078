#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/grammar/json_schema_escapes.h"

namespace quire {
namespace {

// The automaton that is built as it is, and the one by complement and subsets.
TEST(JsonSpellings, OfAllNamesButAFewAreThoseOfTheComplement) {
  GrammarBudget budget;
  const std::vector<std::vector<std::string>> lists = {{},
                                                       {""},
                                                       {"a"},
                                                       {"", "a", "ab", "b"},
                                                       {"cab", "cob", "drab"},  // with one end
                                                       {"name", "names", "names~", "no/ne", "x-1"}};
  for (const std::vector<std::string>& texts : lists) {
    std::vector<Dfa> parts;
    for (const std::string& text : texts) parts.push_back(Dfa::literal(text));
    const Dfa others = dfa_complement(dfa_union(parts, budget).value(), budget).value();
    const auto built = json_spellings_of_others(texts, budget);
    ASSERT_TRUE(built.ok() && built->has_value());
    EXPECT_EQ(**built, json_spellings(others, budget).value()) << ::testing::PrintToString(texts);
  }
}

TEST(JsonSpellings, OfNamesWithSeveralSpellingsAreBuiltTheOtherWay) {
  GrammarBudget budget;
  for (const std::string& name :
       {std::string("\xC3\xA4"), std::string("a\"b"), std::string("\n"), std::string(1000, 'a')}) {
    EXPECT_FALSE(json_spellings_of_others({name}, budget).value().has_value()) << name;
  }
}

}  // namespace
}  // namespace quire
