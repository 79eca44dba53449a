// Powers with the C library's pow, element by element: the bits of Python's `float ** float`.
// NumPy's vectorized power differs from it in last places. And what is made of powers for a whole
// batch, in one call.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arrays.hpp"

namespace rpa {

inline py::object power(py::handle values_arg, double exponent) {
  const Values values(values_arg, "values");
  Result<double> powers(values.size(), values.scalar());
  double* out = powers.data();
  for (std::int64_t j = 0; j < values.size(); ++j) out[j] = std::pow(values.data()[j], exponent);
  return powers.take();
}

// max(priority, floor) ** alpha, at least `least`. Returns the masses, how many were below `least`,
// and the highest priority.
inline py::tuple priority_masses(py::handle priorities_arg, double alpha, double floor,
                                 double least) {
  const Values priorities(priorities_arg, "priorities");
  Result<double> masses(priorities.size(), false);
  double* out = masses.data();
  double highest = floor;
  std::int64_t lifted = 0;
  for (std::int64_t j = 0; j < priorities.size(); ++j) {
    const double priority = std::max(priorities.data()[j], floor);
    highest = std::max(highest, priority);
    out[j] = std::pow(priority, alpha);
    if (out[j] < least) {
      out[j] = least;
      ++lifted;
    }
  }
  return py::make_tuple(masses.take(), lifted, highest);
}

// (size * mass / total) ** -beta, divided by that of the mass `least` (NaN: by the highest one), in
// the order of operations of RLlib's buffer.
inline py::object importance_weights(py::handle masses_arg, double total, double least, double size,
                                     double beta) {
  const Values masses(masses_arg, "masses");
  Result<double> weights(masses.size(), false);
  double* out = weights.data();
  double highest = 0.0, smallest = std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < masses.size(); ++j) {
    out[j] = std::pow(masses.data()[j] / total * size, -beta);
    highest = std::max(highest, out[j]);
    smallest = std::min(smallest, masses.data()[j]);
  }
  if (!std::isnan(least)) {
    highest = std::pow(least / total * size, -beta);
    smallest = least;
  }
  for (std::int64_t j = 0; j < masses.size(); ++j) {
    // The power of the least probability may leave the range of float64; that of ratios does not.
    out[j] =
        std::isfinite(highest) ? out[j] / highest : std::pow(smallest / masses.data()[j], beta);
  }
  return weights.take();
}

inline void register_power(py::module_& module) {
  module.def("priority_masses", &priority_masses, py::arg("priorities"), py::arg("alpha"),
             py::arg("floor"), py::arg("least"));
  module.def("importance_weights", &importance_weights, py::arg("masses"), py::arg("total"),
             py::arg("least"), py::arg("size"), py::arg("beta"));
  module.def("power", &power, py::arg("values"), py::arg("exponent"));
}

}  // namespace rpa
