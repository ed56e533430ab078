// Server.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "apps/serve_flags.h"
#include "bindings.h"
#include "errors.h"
#include "server_handle.h"

namespace quire::python {

namespace nb = nanobind;

void bind_server(nb::module_& module) {
  nb::class_<ServerHandle>(module, "Server", nb::is_weak_referenceable())
      .def(nb::new_(&ServerHandle::listen), nb::arg("settings"), nb::arg("with_engine"))
      .def_prop_ro("address", &ServerHandle::address)
      .def_prop_ro("port", &ServerHandle::port)
      .def_prop_ro("engine_settings", &ServerHandle::engine_settings)
      .def("serve", &ServerHandle::serve, nb::arg("engine"))
      .def("shut_down", &ServerHandle::shut_down, nb::arg("timeout").none())
      .def("wait", &ServerHandle::wait, nb::arg("timeout"));
  module.def("read_price", [](const std::string& text) { return value_of(read_price(text)); });
}

}  // namespace quire::python
