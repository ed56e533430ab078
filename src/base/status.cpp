#include "base/status.h"

#include "base/printable.h"

namespace quire {

std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kBadModel:
      return "BAD_MODEL";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kIoError:
      return "IO_ERROR";
    case StatusCode::kConfig:
      return "CONFIG";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
      return 64;
    case StatusCode::kBadModel:
      return 65;
    case StatusCode::kNotFound:
      return 66;
    case StatusCode::kUnavailable:
      return 69;
    case StatusCode::kInternal:
      return 70;
    case StatusCode::kIoError:
      return 74;
    case StatusCode::kResourceExhausted:
    case StatusCode::kConfig:
      return 78;
    case StatusCode::kCancelled:
      return 130;
  }
  return 70;
}

Status::Status(StatusCode code, std::string_view message, std::string_view remedy)
    : code_(code), message_(printable(message, kMaxBytes)), remedy_(printable(remedy, kMaxBytes)) {}

}  // namespace quire
