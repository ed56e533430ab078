#include "serve/tracing/trace_context.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sys/random.h>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "serve/http/field_text.h"

namespace quire {
namespace {

constexpr std::size_t kVersion00Length = 55;
constexpr std::size_t kMaxMembers = 32;
constexpr std::size_t kMaxValueLength = 256;
constexpr std::size_t kMaxStateLength = 512;
constexpr std::size_t kLongMember = 128;

// The value of a lower-case hexadecimal digit, or -1.
int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// False unless `text` has two digits for each byte.
bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

bool all_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_key_character(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
}

// "vendor" of at most 256 characters, or "tenant@vendor" of at most 241 and 14.
bool valid_key(std::string_view key) {
  const std::size_t at = key.find('@');
  const std::string_view first = key.substr(0, at);
  if (first.empty() || !std::ranges::all_of(first, is_key_character)) return false;
  if (at == std::string_view::npos) return is_lower(first[0]) && first.size() <= 256;
  const std::string_view vendor = key.substr(at + 1);
  return (is_lower(first[0]) || is_digit(first[0])) && first.size() <= 241 && !vendor.empty() &&
         vendor.size() <= 14 && is_lower(vendor[0]) &&
         std::ranges::all_of(vendor, is_key_character);
}

bool valid_value(std::string_view value) {
  return !value.empty() && value.size() <= kMaxValueLength && value.back() != ' ' &&
         std::ranges::all_of(value,
                             [](char c) { return c >= 0x20 && c <= 0x7E && c != ',' && c != '='; });
}

std::string joined(std::span<const std::string_view> members) {
  std::string text;
  for (const std::string_view member : members) {
    if (!text.empty()) text += ',';
    text += member;
  }
  return text;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  text = trimmed(text);
  if (text.size() < kVersion00Length) return std::nullopt;
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  if (!read_hex(text.substr(0, 2), version) || version[0] == 0xFF ||
      !read_hex(text.substr(3, 32), context.trace_id) || all_zero(context.trace_id) ||
      !read_hex(text.substr(36, 16), context.span_id) || all_zero(context.span_id) ||
      !read_hex(text.substr(53, 2), flags)) {
    return std::nullopt;
  }
  if (text.size() > kVersion00Length && (version[0] == 0 || text[kVersion00Length] != '-')) {
    return std::nullopt;
  }
  context.flags = flags[0] & (TraceContext::kSampled | TraceContext::kRandomId);
  return context;
}

std::optional<std::string> parse_tracestate(std::string_view text) {
  const std::vector<std::string_view> members = split_members(text);
  if (members.size() > kMaxMembers) return std::nullopt;
  std::vector<std::string_view> keys;
  for (const std::string_view member : members) {
    const std::size_t equals = member.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = member.substr(0, equals);
    if (!valid_key(key) || !valid_value(member.substr(equals + 1)) ||
        std::ranges::find(keys, key) != keys.end()) {
      return std::nullopt;
    }
    keys.push_back(key);
  }
  return joined(members);
}

std::string shortened_tracestate(std::string_view state) {
  if (state.size() <= kMaxStateLength) return std::string(state);
  std::vector<std::string_view> members = split_members(state);
  std::size_t length = state.size();
  for (std::size_t i = members.size(); i-- > 0 && length > kMaxStateLength;) {
    if (members[i].size() <= kLongMember) continue;
    length -= members[i].size() + 1;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (length > kMaxStateLength) {
    length -= members.back().size() + 1;
    members.pop_back();
  }
  return joined(members);
}

std::optional<TraceContext> incoming_context(std::span<const HttpHeader> headers) {
  const std::string* parent = nullptr;
  std::string state;
  for (const HttpHeader& header : headers) {
    if (equal_ignoring_case(header.name, "traceparent")) {
      if (parent != nullptr) return std::nullopt;
      parent = &header.value;
    } else if (equal_ignoring_case(header.name, "tracestate")) {
      state += header.value + ",";
    }
  }
  if (parent == nullptr) return std::nullopt;
  auto context = parse_traceparent(*parent);
  if (context) context->state = shortened_tracestate(parse_tracestate(state).value_or(""));
  return context;
}

std::string to_traceparent(const TraceContext& context) {
  return fmt::format("00-{}-{}-{:02x}", to_hex(context.trace_id), to_hex(context.span_id),
                     context.flags);
}

// One call of the system for all: a device of the standard library makes one for each word.
IdSource::IdSource() {
  std::array<std::uint8_t, 24> bytes{};
  const bool drawn = getrandom(bytes.data(), bytes.size(), 0) == std::ssize(bytes);
  std::memcpy(trace_id_.data(), bytes.data(), trace_id_.size());
  std::memcpy(&seed_, bytes.data() + trace_id_.size(), sizeof(seed_));
  if (drawn && !all_zero(trace_id_)) return;
  std::random_device device;  // interrupted, which such a short call hardly can be
  for (std::uint8_t& byte : trace_id_) byte = static_cast<std::uint8_t>(device() | 1U);
  seed_ = device();
}

SpanId IdSource::next_span_id() {
  SpanId id{};
  while (all_zero(id)) {
    const std::uint64_t bits = random_bits(seed_, counter_++);
    std::memcpy(id.data(), &bits, sizeof(bits));
  }
  return id;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xF];
  }
  return text;
}

}  // namespace quire
