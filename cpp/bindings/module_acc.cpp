// The Python module of the OpenACC backend. It is compiled by the host's compiler alone: what
// OpenACC sees is device_tree.cpp.
#include <pybind11/pybind11.h>

#include <new>
#include <stdexcept>
#include <string>

#include "accelerator.hpp"
#include "bind_tree.hpp"
#include "device_tree.hpp"
#include "gil.hpp"

namespace py = pybind11;

// Refuses to make a tree where the OpenACC runtime would end the process, and, unless told to use
// its host fallback (for tests), where it would not use a GPU.
static std::unique_ptr<rpa::DeviceTree> make_tree(std::int64_t capacity, bool host) {
  rpa::check_capacity(capacity, rpa::DeviceTree::max_capacity);
  const std::string problem = host ? rpa::acc::host_problem() : rpa::acc::device_problem();
  if (!problem.empty()) throw std::runtime_error(problem);
  try {
    std::unique_ptr<rpa::DeviceTree> tree;
    rpa::without_gil([&] { tree = rpa::acc::make_device_tree(capacity); });
    return tree;
  } catch (const std::bad_alloc&) {
    rpa::throw_memory_error(
        capacity, rpa::DeviceTree::bytes_for(capacity),
        "device memory" +
            (host ? "" : "; free are " + std::to_string(rpa::acc::accelerator().free_memory)));
  }
}

static py::dict traffic(const rpa::DeviceTree& tree) {
  const rpa::Traffic& counted = tree.traffic();
  py::dict result;
  result["launches"] = counted.launches;
  result["transfers_in"] = counted.transfers_in;
  result["transfers_out"] = counted.transfers_out;
  result["bytes_in"] = counted.bytes_in;
  result["bytes_out"] = counted.bytes_out;
  result["allocations"] = counted.allocations;
  return result;
}

static py::object accelerator() {
  if (!rpa::acc::device_problem().empty()) return py::none();
  const rpa::acc::Accelerator device = rpa::acc::accelerator();
  py::dict result;
  result["name"] = device.name;
  result["driver"] = device.driver;
  result["memory"] = device.memory;
  result["free_memory"] = device.free_memory;
  return result;
}

PYBIND11_MODULE(_core_acc, module) {
  module.attr("__version__") = RLLIB_PER_ACC_VERSION;
  rpa::register_tree<rpa::DeviceTree>(module, "PriorityTree")
      .def(py::init(&make_tree), py::arg("capacity"), py::kw_only(), py::arg("host") = false)
      .def("traffic", &traffic);
  module.def("device_problem", &rpa::acc::device_problem);
  module.def("accelerator", &accelerator);
}
