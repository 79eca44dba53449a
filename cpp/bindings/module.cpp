// The Python module of the host backend.
#include <pybind11/pybind11.h>

#include "bind_power.hpp"
#include "bind_tree.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = RLLIB_PER_ACC_VERSION;
  rpa::register_tree<rpa::PairNode>(module, "PriorityTree");
  rpa::register_tree<rpa::SumNode>(module, "SumTree");
  rpa::register_tree<rpa::MinNode>(module, "MinTree");
  rpa::register_power(module);
  module.def("build_info", [] {
    py::dict info;
    info["backend"] = "host";
    info["compiler"] = RLLIB_PER_ACC_COMPILER;
    info["flags"] = RLLIB_PER_ACC_FLAGS;
    return info;
  });
}
