#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

Result<Items> iterate(const Value& value, Budget& budget) {
  Items out;
  const auto borrow = [&](std::size_t count) -> Status {
    QUIRE_RETURN_IF_ERROR(budget.scan(count * sizeof(Value)));
    QUIRE_ASSIGN_OR_RETURN(out.loan, budget.borrow(count * sizeof(Value)));
    out.values.reserve(count);
    return {};
  };
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kString: {
      const Text& text = value.text();
      QUIRE_RETURN_IF_ERROR(budget.scan(text.size()));
      const std::size_t count = code_point_count(text.view());
      QUIRE_RETURN_IF_ERROR(budget.step(count));
      QUIRE_RETURN_IF_ERROR(budget.bytes(count * kObjectBytes));
      QUIRE_RETURN_IF_ERROR(borrow(count));
      for (std::size_t i = 0; i < text.size();) {
        const std::size_t begin = i;
        next_code_point(text.view(), i);
        out.values.push_back(Value::string(text.substr(begin, i), value.is_markup()));
      }
      return out;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      QUIRE_RETURN_IF_ERROR(borrow(value.items().size()));
      out.values = value.items();
      return out;
    case Kind::kDict:
      QUIRE_RETURN_IF_ERROR(borrow(value.dict().entries.size()));
      for (const auto& entry : value.dict().entries) out.values.push_back(entry.first);
      return out;
    case Kind::kRange: {
      const auto& range = value.as<RangeObject>();
      const Int count = range.length();
      QUIRE_RETURN_IF_ERROR(borrow(static_cast<std::size_t>(count)));
      for (Int i = 0; i < count; ++i) {
        out.values.push_back(Value::integer(range.start + i * range.step));
      }
      return out;
    }
    case Kind::kIterator: {
      auto& iterator = value.as<SequenceObject>();
      QUIRE_RETURN_IF_ERROR(borrow(iterator.items.size() - iterator.next));
      out.values.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                        iterator.items.end());
      iterator.next = iterator.items.size();
      return out;
    }
    default:
      return Status::invalid_argument("'" + std::string(kind_name(value)) +
                                      "' object is not iterable");
  }
}

Result<std::vector<Value>> sort_by(std::vector<std::pair<Value, Value>> keyed, bool reverse,
                                   Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step(keyed.size()));
  QUIRE_ASSIGN_OR_RETURN(const Budget::Loan loan,
                         budget.borrow(keyed.size() * 2 * sizeof(keyed[0])));
  Status failure;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (!failure.ok()) return false;
    const Result<bool> less =
        reverse ? is_less(b.first, a.first, budget) : is_less(a.first, b.first, budget);
    if (!less.ok()) failure = less.status();
    return less.ok() && *less;
  });
  QUIRE_RETURN_IF_ERROR(failure);
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return out;
}

Result<Value> escape_html(const Value& string, Budget& budget) {
  if (string.is_markup()) return string;
  QUIRE_RETURN_IF_ERROR(budget.characters(string.view().size()));
  std::size_t size = 0;
  for (const char c : string.view())
    size += c == '&' || c == '"' || c == '\'' ? 5 : c == '<' || c == '>' ? 4 : 1;
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + size + string.text().weight()));
  Text out;
  out.reserve(size);
  string.text().for_each_run([&](std::string_view run, bool is_template) {
    for (const char c : run) {
      switch (c) {
        case '&':
          out.append("&amp;", is_template);
          break;
        case '<':
          out.append("&lt;", is_template);
          break;
        case '>':
          out.append("&gt;", is_template);
          break;
        case '"':
          out.append("&#34;", is_template);
          break;
        case '\'':
          out.append("&#39;", is_template);
          break;
        default:
          out.append(std::string_view(&c, 1), is_template);
      }
    }
  });
  return Value::string(std::move(out), true);
}

}  // namespace quire::jinja
