// The extension module quire._quire: the engine for the package, which is in Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "gil.h"
#include "log_queue.h"

namespace quire::python {

namespace nb = nanobind;

void bind_logs(nb::module_& module) {
  nb::class_<LogRecord>(module, "LogRecord")
      .def_ro("level", &LogRecord::level)
      .def_ro("message", &LogRecord::message);
  nb::class_<LogQueue>(module, "LogQueue")
      .def(nb::new_([] {
        auto queue = std::make_shared<LogQueue>();
        log_to(queue);
        return queue;
      }))
      .def("take",
           [](LogQueue& self, double timeout_s) {
             const WithoutGil released;
             return self.take(Duration(static_cast<std::int64_t>(timeout_s * 1e9)));
           })
      .def("close", &LogQueue::close);
  module.def("end_calls", &end_calls);
  module.def("forget_calls", &forget_calls);
}

}  // namespace quire::python

NB_MODULE(_quire, extension) {
  // A thread that is a daemon holds what it has when the interpreter ends; that is no fault.
  nanobind::set_leak_warnings(false);
  extension.attr("__version__") = QUIRE_VERSION;
  quire::python::bind_records(extension);
  quire::python::bind_engine(extension);
  quire::python::bind_server(extension);
  quire::python::bind_logs(extension);
}
