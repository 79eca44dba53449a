// Stacks of frames from frames that are kept once.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "frames.hpp"
#include "gil.hpp"

namespace rpa {

namespace py = pybind11;

struct SixteenBytes {
  std::uint64_t low, high;
};

template <class T>
void stack_into(const void* frames, const std::int32_t* index, std::int64_t num_items,
                std::int64_t depth, std::int64_t size, void* out) {
  std::vector<const T*> sources(static_cast<std::size_t>(depth));
  for (std::int64_t i = 0; i < num_items; ++i) {
    for (std::int64_t j = 0; j < depth; ++j) {
      sources[static_cast<std::size_t>(j)] =
          static_cast<const T*>(frames) + std::int64_t{index[i * depth + j]} * size;
    }
    interleave(sources.data(), depth, size, static_cast<T*>(out) + i * depth * size);
  }
}

// Items of shape (*frame, depth): `index` has a row of `depth` frames for each.
inline py::array stack_frames(const py::array& frames,
                              const py::array_t<std::int32_t, py::array::c_style>& index) {
  if (frames.ndim() < 1 || !(frames.flags() & py::array::c_style)) {
    throw py::value_error("frames: expected a C-contiguous array of frames");
  }
  if (index.ndim() != 2) throw py::value_error("index: expected shape (items, depth)");
  const std::int64_t num_frames = frames.shape(0), items = index.shape(0), depth = index.shape(1);
  for (std::int64_t i = 0; i < index.size(); ++i) {
    if (index.data()[i] < 0 || index.data()[i] >= num_frames) {
      throw py::index_error("index: got frame " + std::to_string(index.data()[i]) +
                            ", expected one of " + std::to_string(num_frames));
    }
  }
  std::vector<py::ssize_t> shape(frames.shape(), frames.shape() + frames.ndim());
  std::int64_t size = 1;
  for (std::size_t axis = 1; axis < shape.size(); ++axis) size *= shape[axis];
  shape[0] = items;
  shape.push_back(depth);
  py::array out(frames.dtype(), shape);
  const void* const source = frames.data();
  void* const target = out.mutable_data();
  const auto item_size = frames.itemsize();
  const auto run = [&](auto stack) {
    without_gil([&] { stack(source, index.data(), items, depth, size, target); });
  };
  if (item_size == 1) {
    run(stack_into<std::uint8_t>);
  } else if (item_size == 2) {
    run(stack_into<std::uint16_t>);
  } else if (item_size == 4) {
    run(stack_into<std::uint32_t>);
  } else if (item_size == 8) {
    run(stack_into<std::uint64_t>);
  } else if (item_size == 16) {
    run(stack_into<SixteenBytes>);
  } else {
    throw py::type_error("frames: got items of " + std::to_string(item_size) +
                         " bytes, expected 1, 2, 4, 8 or 16");
  }
  return out;
}

inline void register_frames(py::module_& module) {
  module.def("stack_frames", &stack_frames, py::arg("frames").noconvert(),
             py::arg("index").noconvert());
}

}  // namespace rpa
