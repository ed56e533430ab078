#include "errors.h"

#include <nanobind/stl/string.h>
#include <string>

#include "gil.h"

namespace quire::python {

namespace nb = nanobind;

nb::object exception_of(const Status& error) {
  const CallsPython scope;
  return nb::module_::import_("quire.errors")
      .attr("from_status")(std::string(status_code_name(error.code())), error.message(),
                           error.remedy());
}

void raise(const Status& error) {
  const nb::object exception = exception_of(error);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace quire::python
