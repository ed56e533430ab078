#include "support/gguf_recipe.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "quant/encoding.h"
#include "support/counted_weights.h"
#include "tensor/float_convert.h"

namespace quire::test {
namespace {

constexpr std::size_t kAlignment = 32;

template <typename T>
std::string le(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string text(std::string_view value) {
  return le<std::uint64_t>(value.size()) + std::string(value);
}

// A number, a flag or a string under GGUF's name of its type; empty for an unknown one.
std::string encoded(std::string_view type, const json::value& value) {
  if (type == "string") return text(value.as_string());
  if (type == "bool") return le<std::uint8_t>(value.as_bool() ? 1 : 0);
  if (type == "u32") return le(value.to_number<std::uint32_t>());
  if (type == "i32") return le(value.to_number<std::int32_t>());
  if (type == "f32" && value == "-inf") return le(-HUGE_VALF);  // JSON has no such number
  if (type == "f32") return le(static_cast<float>(value.to_number<double>()));
  return {};
}

std::uint32_t type_number(std::string_view type) {
  constexpr std::string_view kTypes[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                         "i32", "f32", "bool", "string", "array"};
  std::uint32_t number = 0;
  while (kTypes[number] != type && kTypes[number] != "array") ++number;
  return number;
}

std::string encoded_key(const json::array& key) {
  constexpr std::string_view kArray = "[]";
  std::string_view type = key.at(1).as_string();
  std::string bytes = text(key.at(0).as_string());
  if (!type.ends_with(kArray)) return bytes + le(type_number(type)) + encoded(type, key.at(2));
  type.remove_suffix(kArray.size());
  const json::array& values = key.at(2).as_array();
  bytes += le(type_number("array")) + le(type_number(type)) + le<std::uint64_t>(values.size());
  for (const json::value& value : values) bytes += encoded(type, value);
  return bytes;
}

// The checkpoint's tensors as floats.
class Sources {
 public:
  explicit Sources(const WeightSource& source) : source_(source) {}

  const std::vector<float>& numbers(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name);
    if (is_new) found->second = read(name);
    return found->second;
  }

 private:
  std::vector<float> read(const std::string& name) {
    constexpr std::string_view kTransposed = "^T";
    if (name.ends_with(kTransposed)) {
      const std::string whole = name.substr(0, name.size() - kTransposed.size());
      const TensorInfo* tensor = source_.find(whole);
      if (tensor == nullptr || tensor->shape.size() < 2) return {};
      const std::size_t dims = tensor->shape.size();
      return transposed(numbers(whole), static_cast<std::size_t>(tensor->shape[dims - 2]),
                        static_cast<std::size_t>(tensor->shape[dims - 1]));
    }
    const TensorInfo* tensor = source_.find(name);
    if (tensor == nullptr) return {};
    std::int64_t count = 1;
    for (const std::int64_t size : tensor->shape) count *= size;
    std::vector<float> values(static_cast<std::size_t>(count));
    decode_row(tensor->encoding, tensor->data.data(), count, values.data());
    return values;
  }

  static std::vector<float> transposed(const std::vector<float>& from, std::size_t rows,
                                       std::size_t cols) {
    std::vector<float> to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::size_t matrix = i / (rows * cols);
      const std::size_t row = i / cols % rows;
      to[matrix * rows * cols + i % cols * rows + row] = from[i];
    }
    return to;
  }

  const WeightSource& source_;
  std::map<std::string, std::vector<float>> numbers_;
};

// Appends the rows of one part, level by level from the outermost.
Status append_rows(const std::vector<float>& from, std::int64_t first,
                   std::span<const json::value> levels, std::int64_t width,
                   std::vector<float>& to) {
  if (levels.empty()) {
    const auto begin = static_cast<std::size_t>(first * width);
    const auto end = begin + static_cast<std::size_t>(width);
    if (first < 0 || end > from.size()) return Status::bad_model("a row that is not there");
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(end));
    return {};
  }
  const json::array& outermost = levels.back().as_array();
  const std::int64_t step = outermost.at(0).as_int64();
  for (std::int64_t i = 0; i < outermost.at(1).as_int64(); ++i) {
    QUIRE_RETURN_IF_ERROR(
        append_rows(from, first + i * step, levels.first(levels.size() - 1), width, to));
  }
  return {};
}

Result<std::vector<float>> numbers_of(const json::object& tensor, Sources& sources) {
  std::vector<float> numbers;
  if (const json::value* literal = tensor.if_contains("numbers")) {
    for (const json::value& value : literal->as_array()) {
      numbers.push_back(static_cast<float>(value.to_number<double>()));
    }
    return numbers;
  }
  for (const json::value& part : tensor.at("rows").as_array()) {
    const std::string name(part.at(0).as_string());
    const json::array& levels = part.at(2).as_array();
    QUIRE_RETURN_IF_ERROR(append_rows(sources.numbers(name), part.at(1).as_int64(),
                                      std::span(levels.data(), levels.size()),
                                      tensor.at("width").as_int64(), numbers));
  }
  const auto add = tensor.at("add").to_number<float>();
  for (float& number : numbers) number += add;
  return numbers;
}

std::string bytes_of(std::string_view type, const std::vector<float>& numbers) {
  std::string bytes;
  for (const float number : numbers) {
    bytes += type == "F16" ? le(float_to_f16(number)) : le(number);
  }
  return bytes;
}

}  // namespace

Status write_gguf(const JsonReader& recipe, const JsonReader& tokenizer, const WeightSource& source,
                  const std::filesystem::path& file) {
  std::string header;
  std::uint64_t num_keys = 0;
  for (const JsonReader& part : {recipe, tokenizer}) {
    for (const json::value& key : part.object().at("keys").as_array()) {
      header += encoded_key(key.as_array());
      ++num_keys;
    }
  }
  Sources sources(source);
  std::string data;
  std::uint64_t hash = fnv1a64({});
  const json::array& tensors = recipe.object().at("tensors").as_array();
  for (const json::value& entry : tensors) {
    const json::object& tensor = entry.as_object();
    const std::string_view type = tensor.at("type").as_string();
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> numbers, numbers_of(tensor, sources));
    const std::string bytes = bytes_of(type, numbers);
    hash = fnv1a64(bytes, hash);
    const json::array& shape = tensor.at("shape").as_array();
    header += text(tensor.at("name").as_string()) + le(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t i = shape.size(); i > 0; --i) {
      header += le(shape[i - 1].to_number<std::uint64_t>());
    }
    header += le<std::uint32_t>(type == "F16" ? 1 : 0) + le<std::uint64_t>(data.size());
    data += bytes;
    data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  if (const std::string found = fmt::format("{:016x}", hash);
      found != recipe.object().at("fnv1a64").as_string()) {
    return Status::bad_model(
        fmt::format("the tensors of {} are not those that the converter wrote", file.string()));
  }
  header =
      "GGUF" + le<std::uint32_t>(3) + le<std::uint64_t>(tensors.size()) + le(num_keys) + header;
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment);
  std::ofstream out(file, std::ios::binary);
  out << header << data;
  out.flush();
  return out ? Status() : Status::io_error("cannot write " + file.string());
}

}  // namespace quire::test
