// The Python module of the host backend.
#include <pybind11/pybind11.h>

#include "bind_cost_table.hpp"
#include "bind_descents.hpp"
#include "bind_frames.hpp"
#include "bind_power.hpp"
#include "bind_transitions.hpp"
#include "bind_tree.hpp"
#include "tree.hpp"

namespace py = pybind11;

template <class Node>
static auto register_host_tree(py::module_& module, const char* name) {
  using Tree = rpa::Tree<Node>;
  return rpa::register_tree<Tree>(module, name)
      .def(py::init(&rpa::make_tree<Tree>), py::arg("capacity"));
}

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = RLLIB_PER_ACC_VERSION;
  register_host_tree<rpa::PairNode>(module, "PriorityTree")
      .def("find_by", &rpa::find_by, py::arg("masses"), py::arg("descent"));
  register_host_tree<rpa::SumNode>(module, "SumTree");
  register_host_tree<rpa::MinNode>(module, "MinTree");
  rpa::register_power(module);
  rpa::register_transitions(module);
  rpa::register_frames(module);
  rpa::register_cost_table(module);
  rpa::register_descents(module);
  module.def("build_info", [] {
    py::dict info;
    info["backend"] = "host";
    info["compiler"] = RLLIB_PER_ACC_COMPILER;
    info["flags"] = RLLIB_PER_ACC_FLAGS;
    info["openacc"] = RLLIB_PER_ACC_OPENACC;  // of _core_acc, so that it need not be loaded
    info["openacc_flags"] = RLLIB_PER_ACC_OPENACC_FLAGS;
    return info;
  });
}
