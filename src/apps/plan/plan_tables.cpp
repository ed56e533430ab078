#include "apps/plan/plan_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

double rounded(double value, int digits) {
  const double unit = std::pow(10.0, digits);
  return std::round(value * unit) / unit;
}

Result<ModelFootprint> whole_footprint(const PlannedModel& model, const PlanSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const double bytes, kv_number_bytes(settings.kv_dtype, model));
  return model_footprint(
      model.spec, {.format = model.format, .kv_bytes = bytes, .tp = 1, .max_len = model.max_len});
}

// "MHA", "GQA-8" (KV heads), "MQA", "MLA".
std::string attention_kind(const KvHeads& heads) {
  if (heads.latent_dims != 0) return "MLA";
  if (heads.num_kv_heads == heads.num_heads) return "MHA";
  if (heads.num_kv_heads == 1) return "MQA";
  return fmt::format("GQA-{}", heads.num_kv_heads);
}

// Numbers of a token's key and value in one head of a layer, were they not latent.
std::int64_t head_numbers(const LayerSpec& layer) {
  const LatentAttentionSpec* const latent = layer.latent_attention();
  if (latent != nullptr) return latent->key_dims + latent->rope_dims + latent->value_dims;
  return 2 * layer.kv_heads().head_dim;
}

// Bytes of a token were there so many KV heads in each layer; `group` of them to one: 0 is all.
double as_if_bytes(const DecoderSpec& spec, std::int64_t group, double number_bytes) {
  std::int64_t numbers = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.keeps_state()) continue;
    const std::int64_t heads = layer.kv_heads().num_heads;
    const std::int64_t kv_heads = group == 0 ? 1 : std::max<std::int64_t>(1, heads / group);
    numbers += kv_heads * head_numbers(layer);
  }
  return static_cast<double>(numbers) * number_bytes;
}

std::string cell_text(const json::value& cell) {
  if (cell.is_string()) return std::string(cell.get_string());
  if (cell.is_double()) return fmt::format("{:.12g}", cell.get_double());
  return fmt::format("{}", cell.to_number<std::int64_t>());
}

}  // namespace

PlanTable weights_table(const std::vector<std::string>& names, const std::vector<double>& counts) {
  constexpr std::array<double, 4> kBits = {32, 16, 8, 4};
  PlanTable table = {.columns = {"parameters", "FP32 GB", "FP16 GB", "INT8 GB", "INT4 GB"},
                     .rows = {},
                     .note =
                         "parameters x bits / 8, in 10^9 bytes; scales, KV cache and "
                         "activations come on top"};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    json::array row = {json::value(names[i])};
    for (const double bits : kBits) row.emplace_back(rounded(counts[i] * bits / 8 / 1e9, 3));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Result<PlanTable> kv_table(const std::vector<PlannedModel>& models, const PlanSettings& settings) {
  PlanTable table = {
      .columns = {"model", "attention", "layers", "KV heads", "head", "bytes/token", "tokens",
                  "GiB/sequence"},
      .rows = {},
      .note =
          "bytes a token = layers x KV heads x head x 2 (key and value) x bytes of a number; "
          "a latent has no 2"};
  for (const PlannedModel& model : models) {
    QUIRE_ASSIGN_OR_RETURN(const ModelFootprint whole, whole_footprint(model, settings));
    const KvHeads heads = model.spec.kv_heads();
    const double sequence = whole.kv_bytes(model.max_len, settings.capacity.block_size);
    table.rows.push_back({json::value(model.name), json::value(attention_kind(heads)),
                          json::value(model.spec.num_layers()), json::value(heads.num_kv_heads),
                          json::value(heads.head_dim), json::value(whole.kv_bytes_per_token()),
                          json::value(model.max_len),
                          json::value(rounded(sequence / kGibibyte, 6))});
  }
  return table;
}

Result<PlanTable> attention_table(const std::vector<PlannedModel>& models,
                                  const PlanSettings& settings) {
  PlanTable table = {
      .columns = {"model", "own", "bytes/token", "as MHA", "as GQA, 8 to 1", "as MQA",
                  "MHA is times"},
      .rows = {},
      .note =
          "KV bytes a token of the model as it is, and as if each head had a key and a value "
          "(MHA), eight shared one (GQA), or all (MQA)"};
  for (const PlannedModel& model : models) {
    QUIRE_ASSIGN_OR_RETURN(const ModelFootprint whole, whole_footprint(model, settings));
    QUIRE_ASSIGN_OR_RETURN(const double bytes, kv_number_bytes(settings.kv_dtype, model));
    const double mha = as_if_bytes(model.spec, 1, bytes);
    table.rows.push_back({json::value(model.name),
                          json::value(attention_kind(model.spec.kv_heads())),
                          json::value(whole.kv_bytes_per_token()), json::value(mha),
                          json::value(as_if_bytes(model.spec, 8, bytes)),
                          json::value(as_if_bytes(model.spec, 0, bytes)),
                          json::value(rounded(mha / whole.kv_bytes_per_token(), 1))});
  }
  return table;
}

Result<PlanTable> batch_table(const PlannedModel& model, const PlanSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const ModelFootprint whole, whole_footprint(model, settings));
  PlanTable table = {.columns = {"batch", "weights GiB", "KV GiB", "both GiB"},
                     .rows = {},
                     .note = fmt::format("{}, sequences of {} tokens, {:.0f} KV bytes a token",
                                         model.name, model.max_len, whole.kv_bytes_per_token())};
  const double weights = whole.all_weight_bytes / kGibibyte;
  const double one = whole.kv_bytes(model.max_len, settings.capacity.block_size) / kGibibyte;
  for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
    const double kv = static_cast<double>(batch) * one;
    table.rows.push_back({json::value(batch), json::value(rounded(weights, 3)),
                          json::value(rounded(kv, 6)), json::value(rounded(weights + kv, 3))});
  }
  return table;
}

std::string table_text(const PlanTable& table) {
  std::vector<std::size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(column.size());
  for (const json::array& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], cell_text(row[i]).size());
    }
  }
  std::string text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    text += i == 0 ? fmt::format("{:<{}}", table.columns[i], widths[i])
                   : fmt::format("  {:>{}}", table.columns[i], widths[i]);
  }
  text += "\n";
  for (const json::array& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", cell_text(row[i]), widths[i])
                     : fmt::format("  {:>{}}", cell_text(row[i]), widths[i]);
    }
    text += "\n";
  }
  return text + "\n" + table.note + "\n";
}

json::object table_json(const PlanTable& table) {
  json::array rows;
  for (const json::array& row : table.rows) {
    json::object each;
    for (std::size_t i = 0; i < row.size(); ++i) each[table.columns[i]] = row[i];
    rows.push_back(std::move(each));
  }
  return {{"rows", std::move(rows)}, {"note", table.note}};
}

}  // namespace quire
