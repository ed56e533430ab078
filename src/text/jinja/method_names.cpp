#include <algorithm>
#include <array>
#include <string_view>

#include "text/jinja/methods.h"

namespace quire::jinja {
namespace {

constexpr std::array<std::string_view, 47> kStringMethods = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::array<std::string_view, 11> kDictMethods = {
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::array<std::string_view, 5> kDictMutating = {"clear", "pop", "popitem", "setdefault",
                                                           "update"};
constexpr std::array<std::string_view, 11> kListMethods = {"append", "clear",   "copy",   "count",
                                                           "extend", "index",   "insert", "pop",
                                                           "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 8> kListMutating = {"append", "clear",  "extend",  "insert",
                                                           "pop",    "remove", "reverse", "sort"};

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kString:
      return is_in(kStringMethods, name);
    case Kind::kDict:
      return is_in(kDictMethods, name);
    case Kind::kList:
      return is_in(kListMethods, name);
    case Kind::kTuple:
      return name == "count" || name == "index";
    case Kind::kCycler:
      return name == "next" || name == "reset";
    default:
      return false;
  }
}

bool is_mutating_method(const Value& value, std::string_view name) {
  return (value.is_dict() && is_in(kDictMutating, name)) ||
         (value.is(Kind::kList) && is_in(kListMutating, name));
}

}  // namespace quire::jinja
