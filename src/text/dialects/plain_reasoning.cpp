#include "text/dialects/plain_reasoning.h"

#include <vector>

namespace quire {
namespace {

std::vector<ReasoningDialect> make_plain_dialects() {
  std::vector<ReasoningDialect> plain(reasoning_dialects().begin(), reasoning_dialects().end());
  for (ReasoningDialect& dialect : plain) {
    dialect.dropped = {};
    dialect.final_is_rest = dialect.channels;
  }
  return plain;
}

}  // namespace

const ReasoningDialect* kept_content(const ReasoningDialect& dialect) {
  static const std::vector<ReasoningDialect> kPlain = make_plain_dialects();
  for (const ReasoningDialect& plain : kPlain) {
    if (plain.name == dialect.name) return &plain;
  }
  return &dialect;
}

}  // namespace quire
