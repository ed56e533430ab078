// The parts of the extension module, each with its classes.
#pragma once

#include <nanobind/nanobind.h>

namespace quire::python {

void bind_records(nanobind::module_& module);  // Inbox and what comes out of it
void bind_engine(nanobind::module_& module);   // Engine, Params, TextModel
void bind_server(nanobind::module_& module);   // Server
void bind_logs(nanobind::module_& module);

}  // namespace quire::python
