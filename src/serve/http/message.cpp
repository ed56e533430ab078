#include "serve/http/message.h"

#include <algorithm>
#include <ostream>  // the next header needs it and does not say so

#include <boost/beast/http/status.hpp>

#include "serve/http/field_text.h"

namespace quire {

const std::string* HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find_if(
      headers, [&](const HttpHeader& header) { return equal_ignoring_case(header.name, name); });
  return found == headers.end() ? nullptr : &found->value;
}

std::vector<const std::string*> HttpRequest::all_headers(std::string_view name) const {
  std::vector<const std::string*> found;
  for (const HttpHeader& header : headers) {
    if (equal_ignoring_case(header.name, name)) found.push_back(&header.value);
  }
  return found;
}

const std::string* HttpRequest::query_param(std::string_view name) const {
  const auto found =
      std::ranges::find_if(query, [&](const auto& entry) { return entry.first == name; });
  return found == query.end() ? nullptr : &found->second;
}

std::string_view HttpRequest::path_param(std::string_view name) const {
  const auto found =
      std::ranges::find_if(path_params, [&](const auto& entry) { return entry.first == name; });
  return found == path_params.end() ? std::string_view() : found->second;
}

std::string_view http_reason(int status) {
  const auto known = boost::beast::http::int_to_status(static_cast<unsigned>(status));
  const auto reason = boost::beast::http::obsolete_reason(known);
  return {reason.data(), reason.size()};
}

}  // namespace quire
