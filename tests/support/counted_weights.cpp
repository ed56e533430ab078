#include "support/counted_weights.h"

#include <bit>
#include <cmath>
#include <fstream>

#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include "base/checked.h"
#include "base/random.h"

namespace quire::test {
namespace {

// Standard deviation of the sum of four uniform 16-bit integers: 2^16 / sqrt(3), nearly.
constexpr double kDeviation = 37837.0;

Result<CountedTensor> read_tensor(const json::value& entry, const std::string& where) {
  const auto number = [](const json::value& value) { return value.to_number<double>(); };
  if (!entry.is_array() || entry.get_array().size() != 4 || !entry.at(0).is_string() ||
      !entry.at(1).is_array() || !entry.at(2).is_number() || !entry.at(3).is_number()) {
    return Status::bad_model(where + ": tensors: expected [name, shape, scale, mean]");
  }
  CountedTensor tensor;
  tensor.name = entry.at(0).get_string();
  for (const json::value& dim : entry.at(1).get_array()) {
    if (!dim.is_int64() || dim.get_int64() <= 0) {
      return Status::bad_model(fmt::format("{}: {}: bad shape", where, tensor.name));
    }
    tensor.shape.push_back(dim.get_int64());
  }
  tensor.scale = number(entry.at(2));
  tensor.mean = number(entry.at(3));
  return tensor;
}

}  // namespace

std::uint64_t fnv1a64(std::string_view bytes, std::uint64_t hash) {
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }
  return hash;
}

std::uint16_t counted_weight(const CountedTensor& tensor, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_bits(fnv1a64(tensor.name) + seed, index);
  std::int64_t sum = -2 * 0xFFFF;
  for (int part = 0; part < 4; ++part) {
    sum += static_cast<std::int64_t>((bits >> (16 * part)) & 0xFFFFU);
  }
  const double exact =
      static_cast<double>(sum) * (tensor.scale / kDeviation) + tensor.mean;  // never contracted
  // To the nearest, even ones first.
  const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(exact));
  const auto half = static_cast<std::uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
  const float rounded = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  return std::fabs(rounded) < 0x1p-14F ? std::uint16_t{0} : half;
}

Result<std::string> counted_bytes(const CountedTensor& tensor, std::uint64_t seed) {
  std::uint64_t elements = 1;
  for (const std::int64_t dim : tensor.shape) {
    const auto product = checked_mul(elements, static_cast<std::uint64_t>(dim));
    if (dim <= 0 || !product || *product > (std::uint64_t{1} << 24)) {
      return Status::bad_model(tensor.name + ": more elements than a test's checkpoint has");
    }
    elements = *product;
  }
  std::string bytes;
  bytes.reserve(2 * elements);
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::uint16_t weight = counted_weight(tensor, seed, i);
    bytes.push_back(static_cast<char>(weight & 0xFFU));
    bytes.push_back(static_cast<char>(weight >> 8));
  }
  return bytes;
}

Result<CountedWeights> read_counted_weights(const JsonReader& list) {
  CountedWeights weights;
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t seed, list.get_int("seed"));
  weights.seed = static_cast<std::uint64_t>(seed);
  QUIRE_ASSIGN_OR_RETURN(weights.fnv1a64, list.get_string("fnv1a64"));
  const json::value* tensors = list.find("tensors");
  if (tensors == nullptr || !tensors->is_array()) return list.type_error("tensors", "a list");
  for (const json::value& entry : tensors->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(CountedTensor tensor, read_tensor(entry, list.where()));
    weights.tensors.push_back(std::move(tensor));
  }
  return weights;
}

Status write_counted_safetensors(const CountedWeights& weights, const std::filesystem::path& file) {
  json::object header;
  std::string data;
  for (const CountedTensor& tensor : weights.tensors) {
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes, counted_bytes(tensor, weights.seed));
    header[tensor.name] = {{"dtype", "BF16"},
                           {"shape", json::value_from(tensor.shape)},
                           {"data_offsets", json::array{data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  if (const std::string hash = fmt::format("{:016x}", fnv1a64(data)); hash != weights.fnv1a64) {
    return Status::bad_model(
        fmt::format("the weights of {} are not those that the goldens were made with: their hash "
                    "is {}, not {}",
                    file.string(), hash, weights.fnv1a64));
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int byte = 0; byte < 8; ++byte) {
    length.push_back(static_cast<char>((text.size() >> (8 * byte)) & 0xFFU));
  }
  std::ofstream out(file, std::ios::binary);
  out << length << text << data;
  out.flush();
  if (!out) return Status::io_error("cannot write " + file.string());
  return {};
}

}  // namespace quire::test
