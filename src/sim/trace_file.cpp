#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "sim/traffic.h"

namespace quire {
namespace {

constexpr std::size_t kMaxArrivals = 20'000'000;
constexpr std::int64_t kMaxTraceTokens = 1LL << 24;  // of one request
constexpr std::size_t kMaxPieces = 1U << 16;
constexpr std::int32_t kMooncakePiece = 512;

Status bad_line(std::string_view name, std::size_t line, std::string_view what) {
  return Status::invalid_argument(fmt::format("{}:{}: {}", name, line, what));
}

// The number at the front of `text`, which it removes, with what must follow.
std::optional<std::int64_t> take_digits(std::string_view& text, std::string_view follows) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(follows)) return std::nullopt;
  text.remove_prefix(follows.size());
  return value;
}

// "2023-11-16 18:17:03.9799600", with or without "+00:00" behind.
std::optional<Instant> parse_timestamp(std::string_view text) {
  const auto year = take_digits(text, "-");
  const auto month = year ? take_digits(text, "-") : year;
  const auto day = month ? take_digits(text, " ") : month;
  const auto hour = day ? take_digits(text, ":") : day;
  const auto minute = hour ? take_digits(text, ":") : hour;
  const auto second = minute ? take_digits(text, "") : minute;
  if (!second || *year > 9999 || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (*month > 12 || *day > 31 || !date.ok()) return std::nullopt;
  std::int64_t nanoseconds = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    std::int64_t unit = 100'000'000;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), unit /= 10) {
      nanoseconds += unit * (text[0] - '0');
    }
  }
  if (!text.empty() && text != "+00:00") return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + *hour) * 60 + *minute) * 60 + *second;
  return Instant(seconds * 1'000'000'000 + nanoseconds);
}

Status check_lengths(std::int64_t input, std::int64_t output, std::string_view name,
                     std::size_t line) {
  if (input >= 1 && input <= kMaxTraceTokens && output >= 0 && output <= kMaxTraceTokens) return {};
  return bad_line(name, line,
                  fmt::format("{} tokens in and {} out; expected 1 to {} and 0 to {}", input,
                              output, kMaxTraceTokens, kMaxTraceTokens));
}

// A request without an output is computed all the same, and gives a token.
Arrival arrival_of(Instant time, std::int64_t input, std::int64_t output) {
  Arrival arrival;
  arrival.time = time;
  arrival.input_len = static_cast<std::int32_t>(input);
  arrival.output_len = static_cast<std::int32_t>(std::max<std::int64_t>(output, 1));
  return arrival;
}

Result<Arrival> azure_arrival(std::string_view text, std::string_view name, std::size_t line) {
  const std::size_t comma = text.find(',');
  const auto time = parse_timestamp(text.substr(0, comma));
  std::string_view rest = text.substr(std::min(text.size(), comma + 1));
  const auto input = take_digits(rest, ",");
  const auto output = input ? take_digits(rest, "") : input;
  if (comma == std::string_view::npos || !time || !output || !rest.empty()) {
    return bad_line(name, line,
                    fmt::format("expected a time, tokens in and tokens out, as 2023-11-16 "
                                "18:17:03.97,374,44; found \"{}\"",
                                printable(text, 80)));
  }
  QUIRE_RETURN_IF_ERROR(check_lengths(*input, *output, name, line));
  return arrival_of(*time, *input, *output);
}

Result<Arrival> mooncake_arrival(std::string_view text, std::string_view name, std::size_t line) {
  const std::string where = fmt::format("{}:{}", name, line);
  QUIRE_ASSIGN_OR_RETURN(const auto value, parse_json(text, where));
  if (!value.is_object()) return bad_line(name, line, "expected an object");
  const JsonReader reader(value.get_object(), where, StatusCode::kInvalidArgument);
  QUIRE_ASSIGN_OR_RETURN(const double time, reader.get_double("timestamp"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t input, reader.get_int("input_length"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t output, reader.get_int("output_length"));
  QUIRE_RETURN_IF_ERROR(check_lengths(input, output, name, line));
  if (!(time >= 0 && time < 1e12)) return bad_line(name, line, "timestamp is out of range");
  Arrival arrival = arrival_of(Instant(static_cast<Instant::rep>(time * 1e6)), input, output);
  const json::value* const ids = reader.find("hash_ids");
  if (ids == nullptr) return arrival;
  if (!ids->is_array() || ids->get_array().size() > kMaxPieces) {
    return reader.type_error("hash_ids", fmt::format("a list of up to {} numbers", kMaxPieces));
  }
  for (const json::value& id : ids->get_array()) {
    if (!id.is_int64()) return reader.type_error("hash_ids", "a list of whole numbers");
    arrival.pieces.push_back(static_cast<std::uint64_t>(id.get_int64()));
  }
  return arrival;
}

}  // namespace

Result<Traffic> parse_trace(std::string_view text, std::string_view name) {
  Traffic traffic;
  traffic.piece_len = kMooncakePiece;
  const bool mooncake = text.starts_with('{');
  traffic.source = mooncake ? "a trace in Mooncake's layout" : "a trace in Azure's layout";
  constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
  for (std::size_t line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), row.size() + 1));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty() || (line == 1 && row == kAzureHeader)) continue;
    if (line == 1 && !mooncake) {
      return bad_line(name, line,
                      fmt::format("expected the header {} (Azure's traces) or a JSON object a line "
                                  "(Mooncake's); found \"{}\"",
                                  kAzureHeader, printable(row, 80)));
    }
    if (traffic.arrivals.size() == kMaxArrivals) {
      return bad_line(name, line, fmt::format("more than {} requests", kMaxArrivals));
    }
    auto arrival = mooncake ? mooncake_arrival(row, name, line) : azure_arrival(row, name, line);
    QUIRE_RETURN_IF_ERROR(arrival.status());
    traffic.arrivals.push_back(std::move(*arrival));
  }
  if (traffic.arrivals.empty()) {
    return Status::invalid_argument(fmt::format("{}: no requests", name));
  }
  std::ranges::stable_sort(traffic.arrivals, {}, &Arrival::time);
  const Instant first = traffic.arrivals.front().time;
  for (Arrival& arrival : traffic.arrivals) arrival.time -= first;
  return traffic;
}

}  // namespace quire
