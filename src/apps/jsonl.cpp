#include "apps/jsonl.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {

Result<std::unique_ptr<std::istream>> open_input(const std::string& path) {
  if (path == "-") return std::make_unique<std::istream>(std::cin.rdbuf());
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status::io_error(fmt::format("cannot read {}: it is a folder", path), "name a file");
  }
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) return Status::not_found(fmt::format("cannot read {}", path), "check the path");
  return std::unique_ptr<std::istream>(std::move(file));
}

Result<std::string> read_all(std::istream& stream, std::size_t max_bytes) {
  std::string text;
  std::array<char, 65536> chunk{};
  try {
    while (text.size() <= max_bytes) {
      const std::streamsize count = stream.rdbuf()->sgetn(chunk.data(), chunk.size());
      if (count <= 0) return text;
      text.append(chunk.data(), static_cast<std::size_t>(count));
    }
  } catch (const std::ios_base::failure& failure) {
    return Status::io_error(fmt::format("cannot read the input: {}", failure.what()));
  }
  return Status::resource_exhausted(fmt::format("the input is larger than {} bytes", max_bytes));
}

std::optional<Result<std::string>> LineReader::next() {
  std::string line;
  bool too_long = false;
  auto* buffer = stream_.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  while (true) {
    int c = kEnd;
    try {
      c = buffer->sbumpc();
    } catch (const std::ios_base::failure& failure) {
      return Result<std::string>(Status::io_error(
          fmt::format("cannot read line {}: {}", line_number_ + 1, failure.what())));
    }
    if (c != kEnd) ++bytes_read_;
    if (c != '\n' && c != kEnd) {
      if (line.size() < kMaxLineBytes) {
        line.push_back(static_cast<char>(c));
      } else {
        too_long = true;
      }
      continue;
    }
    if (c == kEnd && line.empty()) return std::nullopt;
    ++line_number_;
    torn_ = c == kEnd;
    if (too_long) {
      return Result<std::string>(Status::invalid_argument(
          fmt::format("line {} is longer than {} bytes", line_number_, kMaxLineBytes)));
    }
    if (line.find_first_not_of(" \t\r") != std::string::npos) return Result<std::string>(line);
    line.clear();
    if (c == kEnd) return std::nullopt;
  }
}

std::variant<JsonLine, LineError> parse_json_line(std::string_view text, std::int64_t line_number) {
  const std::string where = fmt::format("line {}", line_number);
  const json::value number = line_number;
  auto value = parse_json(text, where);
  if (!value.ok()) return LineError{number, value.status()};
  if (!value->is_object()) {
    return LineError{number,
                     Status::invalid_argument(fmt::format("{}: expected an object, found {}", where,
                                                          json_kind_name(*value)))};
  }
  JsonLine line{number, std::move(value->get_object())};
  const JsonReader reader(line.object, where, StatusCode::kInvalidArgument);
  if (const json::value* id = reader.find("id")) {
    if (!id->is_string() && !id->is_int64()) {
      return LineError{number, reader.type_error("id", "a string or an integer")};
    }
    line.id = *id;
  }
  return line;
}

json::object error_record(const json::value& id, std::int64_t line, const Status& error) {
  json::object record;
  record["id"] = id;
  if (line > 0) record["line"] = line;
  record["error"] = {{"code", status_code_name(error.code())}, {"message", error.to_string()}};
  return record;
}

Result<LineCounts> transform_lines(
    std::istream& input, OutputFile& output,
    const std::function<Result<json::object>(const JsonReader& line)>& transform) {
  LineCounts counts;
  LineReader reader(input);
  while (auto text = reader.next()) {
    const std::int64_t number = reader.line_number();
    json::object record;
    if (!text->ok()) {
      if (text->status().code() == StatusCode::kIoError) return text->status();
      record = error_record(number, number, text->status());
    } else {
      auto parsed = parse_json_line(**text, number);
      if (const auto* error = std::get_if<LineError>(&parsed)) {
        record = error_record(error->id, number, error->status);
      } else {
        const auto& line = std::get<JsonLine>(parsed);
        auto made = transform(
            JsonReader(line.object, fmt::format("line {}", number), StatusCode::kInvalidArgument));
        if (made.ok()) {
          record["id"] = line.id;
          for (auto& field : *made) record[field.key()] = std::move(field.value());
        } else {
          record = error_record(line.id, number, made.status());
        }
      }
    }
    ++counts.lines;
    counts.errors += record.contains("error") ? 1 : 0;
    QUIRE_RETURN_IF_ERROR(output.write_text(json::serialize(record) + "\n"));
  }
  return counts;
}

}  // namespace quire
