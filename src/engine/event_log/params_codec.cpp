// The parameters of a request as bytes: those that differ from their defaults.
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/sampling_table.h"
#include "engine/event_log/bytes.h"
#include "engine/event_log/records.h"

namespace quire {
namespace {

// Calls visit(field, default) for each field, in the order of their bits.
template <typename Visit, typename Params>
void visit_params(Visit& visit, Params& params) {
  static const SamplingParams defaults;
  for_each_sampling_parameter_by_log_bit(
      [&](const auto& row) { visit(params.*row.member, defaults.*row.member); });
}

template <typename Archive, typename Structured>
void visit_constraint(Archive& archive, Structured& constraint) {
  archive(constraint.json);
  archive(constraint.regex);
  archive.list(constraint.choice, [](auto& a, auto& each) { a(each); });
  archive(constraint.grammar);
  archive(constraint.json_object);
  archive(constraint.structural_tag);
  archive(constraint.disable_any_whitespace);
  archive(constraint.disable_additional_properties);
  archive(constraint.whitespace_pattern);
}
void constraint(ByteWriter& writer, const std::shared_ptr<const StructuredOutputsParams>& value) {
  visit_constraint(writer, *value);
}
void constraint(ByteReader& reader, std::shared_ptr<const StructuredOutputsParams>& value) {
  StructuredOutputsParams read;
  visit_constraint(reader, read);
  value = std::make_shared<const StructuredOutputsParams>(std::move(read));
}

template <typename Archive, typename Field>
void field(Archive& archive, Field& value) {
  using Value = std::remove_const_t<Field>;
  if constexpr (std::is_same_v<Value, EarlyStopping>) {
    archive.enumeration(value, EarlyStopping::kNever);
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    archive.list(value, [](auto& a, auto& text) { a(text); });
  } else if constexpr (std::is_same_v<Value, std::vector<LogitBias>>) {
    archive.list(value, [](auto& a, auto& bias) {
      a(bias.token_id);
      a(bias.bias);
    });
  } else if constexpr (std::is_same_v<Value, std::vector<std::vector<TokenId>>>) {
    archive.list(value, [](auto& a, auto& ids) { a(ids); });
  } else if constexpr (std::is_same_v<Value, std::shared_ptr<const StructuredOutputsParams>>) {
    constraint(archive, value);
  } else {
    archive(value);
  }
}

template <typename Field>
bool is_default(const Field& value, const Field& fallback) {
  if constexpr (requires { value.empty(); }) {
    return value.empty();  // every list is empty by default
  } else {
    return value == fallback;
  }
}

// Which fields differ from their defaults, a bit each.
struct FindSet {
  std::uint64_t bit = 1;
  std::uint64_t set = 0;
  template <typename Field>
  void operator()(const Field& value, const Field& fallback) {
    if (!is_default(value, fallback)) set |= bit;
    bit <<= 1;
  }
};
// Writes or reads those fields.
template <typename Archive>
struct EachSet {
  Archive& archive;
  std::uint64_t set;
  template <typename Field>
  void operator()(Field& value, const std::remove_const_t<Field>& /*fallback*/) {
    if ((set & 1) != 0) field(archive, value);
    set >>= 1;
  }
};

}  // namespace

void encode_params(const SamplingParams& params, ByteWriter& writer) {
  FindSet find;
  visit_params(find, params);
  writer.varint(find.set);
  EachSet<ByteWriter> each{writer, find.set};
  visit_params(each, params);
}

SamplingParams decode_params(ByteReader& reader) {
  SamplingParams params;
  EachSet<ByteReader> each{reader, reader.varint()};
  visit_params(each, params);
  const Status status = params.validate(std::numeric_limits<TokenId>::max(),
                                        std::numeric_limits<std::int64_t>::max());
  if (each.set != 0 || !status.ok()) reader.fail();
  return params;
}

}  // namespace quire
