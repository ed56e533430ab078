// Architectures that people have and that no family here reads: what of each is missing.
#pragma once

#include <span>
#include <string_view>

namespace quire {

// Names of Hugging Face's config.json, or of GGUF's general.architecture, and what is missing.
struct RefusedArchitectures {
  std::span<const std::string_view> names;
  std::string_view why;
};
std::span<const RefusedArchitectures> refused_architectures();

// Ends "architecture X is not supported: "; empty for a name that nobody has looked at.
std::string_view why_architecture_is_refused(std::string_view name);

}  // namespace quire
