// JSON values as values of the template language; all their text is input, not template text.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

Result<Value> from_json(const json::value& value, Budget& budget);

// The same for a list of messages, where a usual role counts as template text: templates write
// '<|' + message.role + '|>', and those few words can do no harm.
Result<Value> messages_from_json(const json::array& messages, Budget& budget);

}  // namespace quire::jinja
