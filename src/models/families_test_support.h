// What the tests of families say of a small configuration of each.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "models/registry.h"

namespace quire::families_test {

// A small configuration of `architecture` with `changes` merged in.
inline Result<DecoderSpec> spec_of(std::string_view architecture, std::string_view changes) {
  json::object config = {{"architectures", {architecture}},
                         {"num_hidden_layers", 4},
                         {"hidden_size", 64},
                         {"intermediate_size", 96},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"vocab_size", 100},
                         {"max_position_embeddings", 512},
                         {"rms_norm_eps", 1e-5},
                         {"layer_norm_eps", 1e-4},
                         {"norm_epsilon", 1e-3},
                         {"norm_eps", 1e-2},
                         {"rotary_dim", 8},
                         {"layer_norm_epsilon", 1e-6}};
  if (architecture == "GPTNeoXForCausalLM") config.erase("num_key_value_heads");
  const json::value changed = parse_json(changes, "changes").value();
  for (const auto& change : changed.get_object()) config[change.key()] = change.value();
  return spec_from_config(JsonReader(config, "config.json"));
}

inline DecoderSpec good(std::string_view architecture, std::string_view changes = "{}") {
  auto spec = spec_of(architecture, changes);
  EXPECT_TRUE(spec.ok()) << spec.status().to_string();
  return spec.ok() ? *std::move(spec) : DecoderSpec();
}

inline bool has(const DecoderSpec& spec, TensorRole role) {
  const auto listed = [role](const std::vector<TensorShape>& tensors) {
    return std::ranges::find(tensors, role, &TensorShape::role) != tensors.end();
  };
  return listed(spec.tensors()) || listed(spec.layer_tensors(0));
}

inline void expect_refused(std::string_view architecture, std::string_view changes, StatusCode code,
                           std::string_view named) {
  const auto spec = spec_of(architecture, changes);
  ASSERT_FALSE(spec.ok()) << architecture << ' ' << changes;
  EXPECT_EQ(status_code_name(spec.status().code()), status_code_name(code)) << changes;
  EXPECT_NE(spec.status().message().find(named), std::string::npos)
      << changes << ": " << spec.status().to_string();
}

}  // namespace quire::families_test
