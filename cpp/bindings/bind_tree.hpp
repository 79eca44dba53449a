// One Python class per kind of tree, registered by one template: validate everything, then take
// the tree's lock, release the GIL where the work is worth it, and call the core.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "gil.hpp"
#include "node.hpp"
#include "update_algorithm.hpp"
#include "validate.hpp"

namespace rpa {

namespace py = pybind11;

// Runs `work` under the tree's lock. The lock is never waited for while the GIL is held, and it
// is given up before the GIL is taken again.
template <class T, class Work>
void locked(const T& tree, std::int64_t size, Work work) {
  if constexpr (requires { tree.lost(); }) {
    if (tree.lost()) {
      throw std::runtime_error(
          "this tree is on a GPU that belongs to the process this one was forked from: use "
          "'spawn' or 'forkserver', or make the tree in the child with device='cpu'");
    }
  }
  if (size < T::gil_threshold) {
    const std::unique_lock lock(tree.mutex(), std::try_to_lock);
    if (lock) return work();
  }
  without_gil([&] {
    const std::lock_guard lock(tree.mutex());
    work();
  });
}

// What this kind of tree calls the numbers in it and the ones it looks up, and which it takes.
template <class Node>
struct Names {
  static constexpr const char* values = "values";
  static constexpr const char* lookup = "prefixsum";
};
template <>
struct Names<PairNode> {
  static constexpr const char* values = "masses";
  static constexpr const char* lookup = "masses";
};

inline std::string number(double value) { return repr(py::float_(value)); }

// Leaves of a tree.
struct IndexCheck {
  std::int64_t capacity;
  std::int64_t operator()(const std::int64_t* indices, std::int64_t n) const {
    return first_bad_index(indices, n, capacity);
  }
};

class Indices : public Batch<std::int64_t, IndexCheck> {
 public:
  template <class T>
  Indices(py::handle value, const T& tree) : Batch(value, "indices", {tree.capacity()}) {}

  void check() const {
    if (bad() < 0) return;
    throw py::index_error(
        complain(bad(), "0 <= index < " + std::to_string(check_.capacity) + ", the capacity"));
  }
};

// Numbers from 0 to a limit.
struct MassCheck {
  double limit;
  std::int64_t operator()(const double* masses, std::int64_t n) const {
    return first_bad_mass(masses, n, limit);
  }
};
using Masses = Batch<double, MassCheck>;

// The numbers that a tree holds. Masses are checked; the single trees take any float, as RLlib's
// do.
template <class Node>
class Leaves : public Values {
 public:
  template <class T>
  Leaves(py::handle value, const T&, const char* name) : Values(value, name) {}
  void check() const {}
};
template <>
class Leaves<PairNode> : public Masses {
 public:
  template <class T>
  Leaves(py::handle value, const T& tree, const char* name)
      : Masses(value, name, {mass_limit(tree.padded())}) {}

  void check() const {
    if (bad() < 0) return;
    throw py::value_error(complain(
        bad(), "a finite mass >= 0 and <= " + number(check_.limit) + " (sums must stay finite)"));
  }
};

template <class Numbers>
void check_same_length(const Indices& indices, const Numbers& values) {
  if (indices.size() == values.size() && indices.scalar() == values.scalar()) return;
  const auto length = [](const auto& batch) {
    return batch.scalar() ? "a scalar" : "of length " + std::to_string(batch.size());
  };
  throw py::value_error(std::string(indices.name()) + " is " + length(indices) + " and " +
                        values.name() + " is " + length(values) + ": expected equal lengths");
}

template <class T>
void update_with(T& tree, py::handle indices_arg, py::handle values_arg,
                 UpdateAlgorithm algorithm) {
  using Node = typename T::node_type;
  const Indices indices(indices_arg, tree);
  const Leaves<Node> values(values_arg, tree, Names<Node>::values);
  check_same_length(indices, values);
  indices.check();
  values.check();
  locked(tree, indices.size(),
         [&] { tree.update(indices.data(), values.data(), indices.size(), algorithm); });
}

template <class T>
void update(T& tree, py::handle indices, py::handle values) {
  update_with(tree, indices, values, UpdateAlgorithm::automatic);
}

// For benchmarks: the same update by a named algorithm.
template <class T>
void update_by(T& tree, py::handle indices, py::handle values, const std::string& algorithm) {
  constexpr std::pair<const char*, UpdateAlgorithm> names[] = {
      {"per_element", UpdateAlgorithm::per_element},
      {"touched", UpdateAlgorithm::touched},
      {"rebuild", UpdateAlgorithm::rebuild}};
  for (const auto& [name, value] : names) {
    if (algorithm == name) return update_with(tree, indices, values, value);
  }
  throw py::value_error("algorithm is " + repr(py::str(algorithm)) +
                        ": expected 'per_element', 'touched' or 'rebuild'");
}

// `by`: a path to find by, or nothing.
template <class T, class... By>
py::object find_with(const T& tree, py::handle masses_arg, const By&... by) {
  const Masses masses(masses_arg, Names<typename T::node_type>::lookup,
                      {std::numeric_limits<double>::max()});
  if (masses.bad() >= 0) {
    throw py::value_error(masses.complain(masses.bad(), "a finite number >= 0"));
  }
  Result<std::int64_t> found(masses.size(), masses.scalar());
  std::int64_t* out = found.data();
  bool empty = false;
  locked(tree, masses.size(), [&] {
    empty = masses.size() > 0 && tree.root().sum == 0.0;
    if (!empty) tree.find_prefixsum(masses.data(), out, masses.size(), by...);
  });
  if (empty) {
    throw py::value_error(std::string("find_prefixsum(") + masses.name() +
                          ") on a tree whose sum is 0.0: expected at least one leaf with mass");
  }
  return found.take();
}

template <class T>
py::object find_prefixsum(const T& tree, py::handle masses) {
  return find_with(tree, masses);
}

// The leaves at fractions, in [0, 1), of the sum, and their masses: one call for a sample.
template <class T>
py::tuple draw(const T& tree, py::handle fractions_arg) {
  constexpr double below_one = 1.0 - std::numeric_limits<double>::epsilon() / 2;
  const Masses fractions(fractions_arg, "fractions", {below_one});
  const std::int64_t n = fractions.size();
  if (fractions.bad() >= 0) {
    throw py::value_error(fractions.complain(fractions.bad(), "a number in [0, 1)"));
  }
  Result<std::int64_t> indices(n, false);
  Result<double> masses(n, false);
  std::int64_t* found = indices.data();
  double* values = masses.data();
  bool empty = false;
  locked(tree, n, [&] {
    const double sum = tree.root().sum;
    empty = n > 0 && sum == 0.0;
    if (empty) return;
    for (std::int64_t j = 0; j < n; ++j) values[j] = fractions.data()[j] * sum;
    tree.find_prefixsum(values, found, n);
    tree.read(found, values, n);
  });
  if (empty) throw py::value_error("draw() on a tree whose sum is 0.0: expected a leaf with mass");
  return py::make_tuple(indices.take(), masses.take());
}

template <class T>
py::object read(const T& tree, py::handle indices_arg) {
  const Indices indices(indices_arg, tree);
  indices.check();
  Result<double> values(indices.size(), indices.scalar());
  double* out = values.data();
  locked(tree, indices.size(), [&] { tree.read(indices.data(), out, indices.size()); });
  return values.take();
}

template <class T>
py::array_t<double> read_all(const T& tree) {
  py::array_t<double> values(tree.capacity());
  double* out = values.mutable_data();
  locked(tree, tree.capacity(), [&] { tree.read_all(out); });
  return values;
}

template <class T>
py::array_t<double> read_nodes(const T& tree) {
  py::array_t<double> values(2 * tree.padded());
  double* out = values.mutable_data();
  locked(tree, 2 * tree.padded(), [&] { tree.read_nodes(out); });
  return values;
}

template <class T>
void assign(T& tree, py::handle values_arg) {
  const Leaves<typename T::node_type> values(values_arg, tree, "leaves");
  if (values.scalar() || values.size() > tree.capacity()) {
    throw py::value_error("leaves " +
                          (values.scalar() ? std::string("is a scalar")
                                           : "has length " + std::to_string(values.size())) +
                          ": expected an array of at most " + std::to_string(tree.capacity()) +
                          " values, the capacity");
  }
  values.check();
  locked(tree, tree.capacity(), [&] { tree.assign(values.data(), values.size()); });
}

template <class T>
double reduce(const T& tree, std::int64_t start, std::int64_t end) {
  if (start < 0 || end < 0 || start > tree.capacity() || end > tree.capacity()) {
    throw py::index_error("the range is [" + std::to_string(start) + ", " + std::to_string(end) +
                          "): expected 0 <= start and end <= " + std::to_string(tree.capacity()) +
                          ", the capacity");
  }
  double result = 0.0;
  locked(tree, 1, [&] { result = leaf_value(tree.reduce(start, end)); });
  return result;
}

template <class T>
double root_min(const T& tree) {
  double result = 0.0;
  locked(tree, 1, [&] { result = min_of_key(tree.root().min_key); });
  return result;
}

template <class T>
double root_sum(const T& tree) {
  double result = 0.0;
  locked(tree, 1, [&] { result = tree.root().sum; });
  return result;
}

inline void check_capacity(std::int64_t capacity, std::int64_t largest) {
  if (capacity < 1 || capacity > largest) {
    throw py::value_error("capacity is " + std::to_string(capacity) +
                          ": expected 1 <= capacity <= " + std::to_string(largest));
  }
}

[[noreturn]] inline void throw_memory_error(std::int64_t capacity, std::size_t bytes,
                                            const std::string& where) {
  const std::string message = "capacity is " + std::to_string(capacity) + ": such a tree takes " +
                              std::to_string(bytes) + " bytes of " + where;
  py::set_error(PyExc_MemoryError, message.c_str());
  throw py::error_already_set();
}

template <class T>
std::unique_ptr<T> make_tree(std::int64_t capacity) {
  check_capacity(capacity, T::max_capacity);
  try {
    return std::make_unique<T>(capacity);
  } catch (const std::bad_alloc&) {
    throw_memory_error(capacity, T::bytes_for(capacity), "memory");
  }
}

// Everything but the constructor.
template <class T>
py::class_<T> register_tree(py::module_& module, const char* name) {
  using Node = typename T::node_type;
  py::class_<T> cls(module, name, py::is_final());
  cls.def_property_readonly("capacity", &T::capacity)
      .def_property_readonly("nbytes", &T::bytes)
      .def("__len__", &T::capacity)
      .def("__getitem__", &read<T>, py::arg("indices"))
      .def("update", &update<T>, py::arg("indices"), py::arg(Names<Node>::values))
      .def("update_by", &update_by<T>, py::arg("indices"), py::arg(Names<Node>::values),
           py::arg("algorithm"))
      .def("assign", &assign<T>, py::arg("leaves"))
      .def("leaves", &read_all<T>);
  if constexpr (has_sum<Node>) {
    cls.def("find_prefixsum", &find_prefixsum<T>, py::arg(Names<Node>::lookup));
  }
  if constexpr (std::is_same_v<Node, PairNode>) {
    cls.def("sum", &root_sum<T>).def("min", &root_min<T>);
    cls.def("draw", &draw<T>, py::arg("fractions"));
  } else {
    cls.def("reduce", &reduce<T>, py::arg("start"), py::arg("end")).def("nodes", &read_nodes<T>);
  }
  return cls;
}

}  // namespace rpa
