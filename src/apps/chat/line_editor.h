// Lines typed at a terminal, with editing and a history in memory, by libedit (which stays behind
// this header).
#pragma once

#include <memory>

#include "apps/chat/interrupts.h"
#include "apps/chat/line_source.h"

namespace quire {

// Reads standard input and writes to standard output, which both must be terminals. Ctrl-C gives
// InputLine::Kind::kInterrupted through `interrupts`, Ctrl-D on an empty line kEnd. kInternal where
// libedit does not start.
Result<std::unique_ptr<LineSource>> edited_lines(Interrupts& interrupts);

}  // namespace quire
