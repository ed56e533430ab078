// Prints what the tests cover of each family, as JSON: scripts/make_models.py makes docs/models.md
// of it. What a family has is what its golden checkpoint has, under its configuration and each
// variant of it, and family_reference_test compares the logits of all of them with the reference's.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "kernels/packed_weight.h"
#include "kernels/sizing.h"
#include "load/model_bundle.h"
#include "models/refused_architectures.h"
#include "models/registry.h"
#include "models/text_part.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

// The features of one column, each once, in the order of their names.
struct Columns {
  std::set<std::string> keys;
  std::set<std::string> positions;
  std::set<std::string> norms;
  std::set<std::string> feed_forward;
  std::set<std::string> besides;
};

std::string_view scaling_name(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kDynamic:
      return "dynamic";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kProportional:
      return "proportional";
    case RopeScaling::kFactors:
      return "factors of a file";
    case RopeScaling::kLongRope:
      return "longrope";
  }
  return "";
}

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "tanh GELU";
    case Activation::kGelu:
      return "GELU";
    case Activation::kRelu:
      return "ReLU";
    case Activation::kRelu2:
      return "squared ReLU";
  }
  return "";
}

void add_attention(const AttentionSpec& attention, Columns& columns) {
  if (attention.window > 0) columns.keys.insert("window");
  if (attention.chunk > 0) columns.keys.insert("chunks");
  if (attention.window == 0 && attention.chunk == 0) columns.keys.insert("all");
  if (!attention.alibi_slopes.empty()) columns.positions.insert("ALiBi");
  if (attention.rope == kNoRope) columns.positions.insert("layers that do not rotate");
  if (attention.query_scale) columns.positions.insert("queries scaled by position");
  if (attention.query_key_norm != QueryKeyNorm::kNone) {
    columns.norms.insert("of queries and keys");
  }
  if (attention.value_norm) columns.norms.insert("of values");
  if (attention.kv_layer != kOwnKeys) columns.besides.insert("layers with another's keys");
  if (attention.values_are_keys) columns.besides.insert("keys that are values");
  if (attention.sinks) columns.besides.insert("sinks");
  if (attention.soft_cap != 0) columns.besides.insert("soft caps");
  if (attention.query_key_value_bias || attention.output_bias) {
    columns.besides.insert("biases of attention");
  }
  if (attention.fused_projections) columns.besides.insert("queries, keys, values in one matrix");
}

void add_attention(const LatentAttentionSpec&, Columns& columns) {
  columns.keys.insert("all");
  columns.besides.insert("latent attention");
}

void add_attention(const ShortConvSpec&, Columns& columns) {
  columns.keys.insert("a state");
  columns.besides.insert("short convolutions");
}

struct AddFeedForward {
  Columns& columns;

  void operator()(const GatedMlpSpec& mlp) const {
    columns.feed_forward.insert(fmt::format("gated {}", activation_name(mlp.activation)));
    if (mlp.bias) columns.besides.insert("biases of the MLP");
  }
  void operator()(const SparseMlpSpec& mlp) const {
    columns.feed_forward.insert(
        fmt::format("gated {} of sparse gates", activation_name(mlp.activation)));
  }
  void operator()(const PlainMlpSpec& mlp) const {
    columns.feed_forward.insert(mlp.xielu ? "xIELU" : std::string(activation_name(mlp.activation)));
    if (mlp.bias) columns.besides.insert("biases of the MLP");
  }
  void operator()(const MoeSpec& moe) const {
    columns.feed_forward.insert("experts");
    if (moe.shared_intermediate_size != 0) columns.feed_forward.insert("a shared expert");
    if (moe.clamped) columns.feed_forward.insert("clamped gates");
    if (moe.biases) columns.besides.insert("biases of experts");
  }
};

void add(const DecoderSpec& spec, Columns& columns) {
  for (const LayerSpec& layer : spec.layers) {
    std::visit([&](const auto& mixer) { add_attention(mixer, columns); }, layer.mixer);
    std::visit(AddFeedForward{columns}, layer.feed_forward);
    if (layer.laurel_rank != 0) columns.besides.insert("low-rank residuals");
    if (layer.parallel) columns.besides.insert("blocks side by side");
    if (layer.norms == NormPlacement::kAfter) columns.norms.insert("after blocks");
    if (layer.norms == NormPlacement::kAround) columns.norms.insert("before and after blocks");
    if (layer.residual_scale != 1) columns.besides.insert("scaled residuals");
  }
  for (const RopeSpec& rope : spec.ropes) {
    columns.positions.insert("rope");
    if (const std::string_view scaling = scaling_name(rope.scaling); !scaling.empty()) {
      columns.positions.insert(fmt::format("rope scaling {}", scaling));
    }
  }
  columns.norms.insert(spec.norm.kind == NormKind::kRms ? "RMS" : "layer");
  if (spec.logit_soft_cap != 0) columns.besides.insert("a soft cap of logits");
  if (spec.logit_scale != 1) columns.besides.insert("scaled logits");
  if (spec.positions.kind == PositionKind::kLearned) columns.positions.insert("learned rows");
  if (spec.positions.kind == PositionKind::kSinusoidal) columns.positions.insert("sinusoidal rows");
  if (spec.altup.num_streams != 0) columns.besides.insert("streams");
  if (spec.per_layer.width != 0) columns.besides.insert("embeddings for each layer");
  if (spec.embedding_scale != 1) columns.besides.insert("scaled embeddings");
}

json::array list(const std::set<std::string>& names) {
  json::array result;
  for (const std::string& name : names) result.emplace_back(name);
  return result;
}

json::value must_read(const std::string& path) {
  auto value = read_json_file(path, 1U << 24);
  if (!value.ok()) throw std::runtime_error(value.status().to_string());
  return *std::move(value);
}

json::object describe(std::string_view family, std::set<std::string>& tested) {
  const json::object config = must_read(family_golden(family, "hf/config.json")).as_object();
  std::vector<json::object> configs = {config};
  const json::value goldens = must_read(family_golden(family, "goldens.json"));
  for (const json::value& variant : goldens.at("variants").as_array()) {
    json::object changed = config;
    for (const auto& change : variant.at("config").as_object()) {
      changed[change.key()] = change.value();
    }
    configs.push_back(std::move(changed));
  }
  Columns columns;
  std::string architecture;
  for (const json::object& one : configs) {
    const auto spec = spec_from_config(JsonReader(one, std::string(family)));
    if (!spec.ok()) throw std::runtime_error(spec.status().to_string());
    architecture = spec->architecture;
    add(*spec, columns);
  }
  tested.insert(architecture);
  json::array files = {"Hugging Face"};
  if (family_files(family).size() > 1) files.emplace_back("GGUF");
  return {{"architecture", architecture},    {"files", std::move(files)},
          {"keys", list(columns.keys)},      {"positions", list(columns.positions)},
          {"norms", list(columns.norms)},    {"feed_forward", list(columns.feed_forward)},
          {"besides", list(columns.besides)}};
}

// How matrices are written, in which files, and the checkpoints of the tests that have some so.
class Encodings {
 public:
  // `is_mixed`: what of it is not quantized is in other rows.
  void add(const std::string& path, std::string_view checkpoint, bool is_mixed = false) {
    auto bundle = open_model(path, "");
    if (!bundle.ok()) throw std::runtime_error(bundle.status().to_string());
    const bool gguf = path.ends_with(".gguf");
    for (const TensorInfo& tensor : bundle->weights->tensors()) {
      const WeightLayout layout = layout_of(tensor.encoding);
      if (tensor.shape.size() < 2 || (is_mixed && !is_quantized(layout))) continue;
      const std::string format(tensor.format_name());
      const auto found = std::ranges::find_if(
          rows_, [&](const Row& row) { return row.format == format && row.gguf == gguf; });
      Row& row =
          found == rows_.end() ? rows_.emplace_back(Row{.format = format, .gguf = gguf}) : *found;
      row.layouts.emplace(weight_layout_name(layout), bits_of(tensor.encoding));
      row.checkpoints.emplace(checkpoint);
    }
  }

  json::array describe() const {
    json::array rows;
    for (const Row& row : rows_) {
      json::array layouts;
      for (const auto& [name, bits] : row.layouts) {
        layouts.push_back(json::object{{"name", name}, {"bits", fmt::format("{:.4g}", bits)}});
      }
      rows.push_back(json::object{
          {"format", row.format},
          {"files", row.gguf ? "GGUF" : "Hugging Face"},
          {"layouts", std::move(layouts)},
          {"checkpoints", json::array(row.checkpoints.begin(), row.checkpoints.end())}});
    }
    return rows;
  }

 private:
  struct Row {
    std::string format;
    bool gguf = false;
    std::map<std::string, double> layouts = {};  // with their bits a weight
    std::set<std::string> checkpoints = {};
  };

  // A weight's in memory, of a matrix of a usual size.
  static double bits_of(Encoding encoding) {
    constexpr std::int64_t kSize = 4096;
    const std::uint64_t bytes = packed_weight_bytes(encoding, kSize, kSize, LoadQuantization::kNone,
                                                    /*vocabulary=*/false);
    return static_cast<double>(bytes) * 8 / static_cast<double>(kSize * kSize);
  }

  std::vector<Row> rows_;
};

json::array describe_encodings() {
  Encodings encodings;
  encodings.add(family_model("llama", "hf"), "llama");
  encodings.add(tiny_llama("hf"), "tiny_llama");
  for (const std::string_view kind : kQuantizedKinds) {
    encodings.add(quantized_model(kind), kind, /*is_mixed=*/true);
  }
  for (const std::string type : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"}) {
    encodings.add(tiny_llama("tiny_llama_" + type + ".gguf"), "tiny_llama_" + type);
  }
  for (const std::string name : {"tiny_kquants", "tiny_compact"}) {
    encodings.add(tiny_encodings(name), name);
  }
  return encodings.describe();
}

json::object describe_all() {
  json::array families;
  std::set<std::string> tested;
  for (const std::string_view family : kFamilies) families.push_back(describe(family, tested));
  json::array untested;
  for (const std::string& name : known_architectures()) {
    if (!tested.contains(name)) untested.emplace_back(name);
  }
  json::array refused;
  for (const RefusedArchitectures& group : refused_architectures()) {
    json::array names;
    for (const std::string_view name : group.names) names.emplace_back(name);
    refused.push_back(json::object{{"why", group.why}, {"names", std::move(names)}});
  }
  json::array multimodal;
  for (const std::string& name : multimodal_architectures()) multimodal.emplace_back(name);
  return {{"families", std::move(families)},
          {"encodings", describe_encodings()},
          {"untested", std::move(untested)},
          {"multimodal", std::move(multimodal)},
          {"refused", std::move(refused)}};
}

}  // namespace
}  // namespace quire::test

int main() {
  try {
    std::puts(quire::json::serialize(quire::test::describe_all()).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "print_models: %s\n", error.what());
    return 1;
  }
}
