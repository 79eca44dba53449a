// The ways to descend: which there are, which was chosen, and one of them for benchmarks.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "arrays.hpp"
#include "bind_tree.hpp"
#include "descent_choice.hpp"
#include "tree.hpp"

namespace rpa {

inline py::tuple get_descents() {
  py::list names;
  for (const DescentPath& path : descent_paths()) names.append(path.name);
  return py::tuple(names);
}

// The place of a path in descent_paths().
inline int descent_named(const std::string& name) {
  for (int place = 0; const DescentPath& path : descent_paths()) {
    if (name == path.name) return place;
    ++place;
  }
  throw py::value_error("descent is " + repr(py::str(name)) + ": expected one of " +
                        repr(get_descents()));
}

inline py::tuple get_allowed_descents() {
  py::list names;
  for (int place = 0; const DescentPath& path : descent_paths()) {
    if (descent_choice().allowed() >> place++ & 1U) names.append(path.name);
  }
  return py::tuple(names);
}

inline void allow_named_descents(const py::args& names) {
  if (names.empty()) throw py::value_error("no descent is named: expected at least one");
  unsigned places = 0;
  for (const py::handle& name : names) places |= 1U << descent_named(name.cast<std::string>());
  descent_choice().allow(places);
}

inline py::object get_chosen_descent(std::int64_t capacity, std::int64_t n) {
  check_capacity(capacity, Tree<PairNode>::max_capacity);
  const DescentPath* path = descent_choice().chosen(padded_for(capacity), n);
  return path == nullptr ? py::object(py::none()) : py::object(py::str(path->name));
}

inline py::object find_by(const Tree<PairNode>& tree, py::handle masses, const std::string& name) {
  return find_with(tree, masses, descent_paths()[descent_named(name)]);
}

inline void register_descents(py::module_& module) {
  module.def("descents", &get_descents);
  module.def("allowed_descents", &get_allowed_descents);
  module.def("allow_descents", &allow_named_descents);
  module.def("chosen_descent", &get_chosen_descent, py::arg("capacity"), py::arg("n"));
}

}  // namespace rpa
