// The cost table as a dict: seen and set by tests and benchmarks.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>
#include <string>

#include "arrays.hpp"
#include "cost_table.hpp"

namespace rpa {

struct UpdateCost {
  const char* name;
  double UpdateCosts::* value;
};
inline constexpr UpdateCost update_costs[] = {{"element_node", &UpdateCosts::element_node},
                                              {"touched_node", &UpdateCosts::touched_node},
                                              {"touched_level", &UpdateCosts::touched_level},
                                              {"swept_node", &UpdateCosts::swept_node}};

inline py::dict get_cost_table() {
  const UpdateCosts& costs = cost_table();
  py::dict result;
  for (const UpdateCost& cost : update_costs) result[cost.name] = costs.*cost.value;
  return result;
}

// Entries that are not given keep their values.
inline void change_cost_table(const py::kwargs& changes) {
  UpdateCosts costs = cost_table();
  for (const auto& [key, value] : changes) {
    const auto name = key.cast<std::string>();
    bool known = false;
    for (const UpdateCost& cost : update_costs) {
      if (name != cost.name) continue;
      known = true;
      const auto number = value.cast<double>();
      if (!(number >= 0.0) || std::isinf(number)) {
        throw py::value_error(name + " is " + repr(py::reinterpret_borrow<py::object>(value)) +
                              ": expected a finite number >= 0");
      }
      costs.*cost.value = number;
    }
    if (!known) {
      throw py::type_error(name + " is not an entry of the cost table: expected " +
                           repr(get_cost_table().attr("keys")()));
    }
  }
  set_cost_table(costs);
}

inline void register_cost_table(py::module_& module) {
  module.def("cost_table", &get_cost_table);
  module.def("set_cost_table", &change_cost_table);
  module.def("measure_cost_table", [] { set_cost_table(measure_cost_table()); });
}

}  // namespace rpa
