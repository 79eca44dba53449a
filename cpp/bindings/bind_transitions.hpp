// The reads of the transition store that touch every sampled row. Arrays are the store's own, of
// exactly these dtypes; rows are checked.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transitions.hpp"

namespace rpa {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class Row>
void check_rows(const Array<Row>& rows, py::ssize_t num_rows) {
  const Row* row = rows.data();
  for (py::ssize_t i = 0; i < rows.size(); ++i) {
    if (row[i] < 0 || row[i] >= num_rows) {
      throw py::index_error("rows[" + std::to_string(i) + "] is " + std::to_string(row[i]) +
                            ": expected one of " + std::to_string(num_rows) + " rows");
    }
  }
}

inline void check_lengths(const char* name, py::ssize_t got, py::ssize_t expected) {
  if (got != expected) {
    throw py::value_error(std::string(name) + ": got " + std::to_string(got) + " items, expected " +
                          std::to_string(expected));
  }
}

template <class T, class From>
Array<T> picked(const std::vector<std::int64_t>& positions, const From* values) {
  Array<T> out(static_cast<py::ssize_t>(positions.size()));
  T* item = out.mutable_data();
  for (const std::int64_t position : positions) *item++ = values[position];
  return out;
}

// Links of rows, an array of shape (rows, 3).
inline const Link* links_of(const Array<std::int32_t>& links) {
  static_assert(sizeof(Link) == 3 * sizeof(std::int32_t));
  if (links.ndim() != 2 || links.shape(1) != 3) throw py::value_error("links: expected (rows, 3)");
  return reinterpret_cast<const Link*>(links.data());
}

// The fields of Python's `Transitions`. There is one number of steps for each row, or one for all.
inline py::tuple serve_rows(const Array<std::int32_t>& links,
                            const Array<std::uint32_t>& generation,
                            const Array<std::int32_t>& length, const Array<std::uint8_t>& flags,
                            const Array<std::int32_t>& t_started, const Array<std::int64_t>& rows,
                            const Array<double>& masses, const Array<std::int64_t>& steps,
                            std::int64_t most, std::int64_t least) {
  const StoredSteps stored{links_of(links), length.data(), flags.data()};
  check_rows(rows, std::min(links.shape(0), generation.size()));
  check_lengths("masses", masses.size(), rows.size());
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(rows.size()));
  if (steps.size() == 1) {
    std::fill(wanted.begin(), wanted.end(), *steps.data());
  } else {
    check_lengths("steps", steps.size(), rows.size());
    std::copy_n(steps.data(), steps.size(), wanted.begin());
  }
  Served served = serve(stored, rows.data(), std::move(wanted), most, least);
  const std::size_t num_going = served.going.size();
  std::vector<std::int64_t>& positions = served.going;
  positions.insert(positions.end(), served.ending.begin(), served.ending.end());

  const auto n = static_cast<py::ssize_t>(positions.size());
  Array<std::uint32_t> generations(n);
  Array<std::int64_t> time_steps(n);
  Array<bool> terminated(n), truncated(n);
  std::uint32_t* const generation_out = generations.mutable_data();
  std::int64_t* const time_step_out = time_steps.mutable_data();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto position = static_cast<std::size_t>(positions[i]);
    generation_out[i] = generation.data()[rows.data()[position]];
    time_step_out[i] = std::int64_t{t_started.data()[served.slot[position]]} + served.t[position];
  }
  std::fill_n(terminated.mutable_data(), n, false);
  std::fill_n(truncated.mutable_data(), n, false);
  for (std::size_t i = num_going; i < positions.size(); ++i) {
    const std::uint8_t flag = stored.flags[served.slot[static_cast<std::size_t>(positions[i])]];
    terminated.mutable_data()[i] = (flag & 1) != 0;
    truncated.mutable_data()[i] = (flag & 2) != 0;
  }
  const auto chosen = picked<std::int32_t>(positions, rows.data());
  const auto slots = picked<std::int32_t>(positions, served.slot.data());
  return py::make_tuple(chosen, generations, slots, time_steps,
                        picked<std::int64_t>(positions, served.steps.data()), terminated, truncated,
                        picked<double>(positions, masses.data()),
                        Array<std::int64_t>(n, positions.data()), served.looked_at,
                        num_distinct(chosen.data(), n), num_distinct(slots.data(), n));
}

inline py::tuple follow(const Array<std::int32_t>& links, const Array<double>& rewards,
                        const Array<std::int32_t>& rows, const Array<std::int64_t>& steps,
                        double gamma) {
  const Link* const first = links_of(links);
  check_rows(rows, std::min(links.shape(0), rewards.size()));
  check_lengths("steps", steps.size(), rows.size());
  Array<std::int32_t> reached(rows.size());
  Array<double> total(rows.size());
  const std::int64_t bad =
      follow_links(first, rewards.data(), rows.data(), steps.data(), rows.size(), gamma,
                   reached.mutable_data(), total.mutable_data());
  if (bad >= 0) {
    throw py::value_error("steps[" + std::to_string(bad) + "] is " + std::to_string(steps.at(bad)) +
                          ": expected at most as many as are left of the episode");
  }
  return py::make_tuple(reached, total);
}

inline void register_transitions(py::module_& module) {
  module.def("serve_rows", &serve_rows, py::arg("links").noconvert(),
             py::arg("generation").noconvert(), py::arg("length").noconvert(),
             py::arg("flags").noconvert(), py::arg("t_started").noconvert(),
             py::arg("rows").noconvert(), py::arg("masses").noconvert(),
             py::arg("steps").noconvert(), py::arg("most"), py::arg("least"));
  module.def("follow_links", &follow, py::arg("links").noconvert(), py::arg("rewards").noconvert(),
             py::arg("rows").noconvert(), py::arg("steps").noconvert(), py::arg("gamma"));
  module.def(
      "num_distinct",
      [](const Array<std::int32_t>& values) { return num_distinct(values.data(), values.size()); },
      py::arg("values").noconvert());
}

}  // namespace rpa
