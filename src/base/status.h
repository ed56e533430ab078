// Error values. Errors cross folder boundaries as `Status` or `Result<T>`, never as exceptions.
//
//   Result<File> open(const std::string& path) {
//     if (!exists(path)) return Status::not_found("no file " + path, "check the path");
//     QUIRE_ASSIGN_OR_RETURN(auto bytes, read(path));
//     return File(std::move(bytes));
//   }
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace quire {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's input breaks a rule (exit code 64)
  kBadModel,           // a model file or folder is broken or inconsistent (65)
  kNotFound,           // a file or model is not there (66)
  kUnimplemented,      // a known feature that this build does not have (64)
  kResourceExhausted,  // a limit or the memory does not allow it (78)
  kIoError,            // the system refused to read or write (74)
  kConfig,             // settings that contradict each other (78)
  kUnavailable,        // in use by another, or shutting down (69)
  kCancelled,          // interrupted by the user (130)
  kInternal,           // a bug in Quire (70)
};

// "INVALID_ARGUMENT" and so on; the stable name used in JSON error records.
std::string_view status_code_name(StatusCode code);

// The process exit code that stands for `code` (sysexits.h values).
int exit_code(StatusCode code);

// What went wrong and where (`message`), and what to do about it (`remedy`, may be empty). Both go
// to terminals and logs, so they are kept as printable() gives them and cut behind kMaxBytes,
// whatever was put into them: no control character, no line feed, valid UTF-8. A message that
// quotes text from outside wraps that in printable(), so that the quote cannot crowd out the rest.
class [[nodiscard]] Status {
 public:
  static constexpr std::size_t kMaxBytes = 2000;

  Status() = default;
  Status(StatusCode code, std::string_view message, std::string_view remedy = {});

  static Status invalid_argument(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kInvalidArgument, message, remedy};
  }
  static Status bad_model(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kBadModel, message, remedy};
  }
  static Status not_found(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kNotFound, message, remedy};
  }
  static Status unimplemented(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kUnimplemented, message, remedy};
  }
  static Status resource_exhausted(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kResourceExhausted, message, remedy};
  }
  static Status io_error(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kIoError, message, remedy};
  }
  static Status config(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kConfig, message, remedy};
  }
  static Status unavailable(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kUnavailable, message, remedy};
  }
  static Status internal(std::string_view message, std::string_view remedy = {}) {
    return {StatusCode::kInternal, message, remedy};
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& remedy() const { return remedy_; }

  // One line: "message; remedy".
  std::string to_string() const { return remedy_.empty() ? message_ : message_ + "; " + remedy_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string remedy_;
};

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

#define QUIRE_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (::quire::Status quire_status = (expr); !quire_status.ok()) return quire_status; \
  } while (false)

#define QUIRE_ASSIGN_OR_RETURN(lhs, expr) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), lhs, expr)
#define QUIRE_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
