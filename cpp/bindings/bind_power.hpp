// Powers with the C library's pow, element by element: the bits of Python's `float ** float`.
// NumPy's vectorized power differs from it in last places.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>

#include "arrays.hpp"

namespace rpa {

inline py::object power(py::handle values_arg, double exponent) {
  const Values values(values_arg, "values");
  Result<double> powers(values.size(), values.scalar());
  double* out = powers.data();
  for (std::int64_t j = 0; j < values.size(); ++j) out[j] = std::pow(values.data()[j], exponent);
  return powers.take();
}

inline void register_power(py::module_& module) {
  module.def("power", &power, py::arg("values"), py::arg("exponent"));
}

}  // namespace rpa
