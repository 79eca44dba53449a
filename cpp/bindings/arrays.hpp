// Arguments of a call as plain arrays of int64 / float64: copied, converted where that is safe, and
// a TypeError or ValueError that names the argument elsewhere.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "page_array.hpp"

namespace rpa {

namespace py = pybind11;

inline std::string repr(const py::object& value) { return py::repr(value).cast<std::string>(); }

// "masses[3] is nan: expected ..."; without the position for a scalar.
inline std::string complaint(const char* name, std::int64_t position, bool scalar,
                             const std::string& got, const std::string& expected) {
  const std::string at = scalar ? "" : "[" + std::to_string(position) + "]";
  return name + at + " is " + got + ": expected " + expected;
}

// The check of a batch that takes everything.
struct Unchecked {
  template <class T>
  std::int64_t operator()(const T*, std::int64_t) const {
    return -1;
  }
};

// A batch of T (int64 or float64) that lives as long as this object. `check` is given piece after
// piece, right after it was copied, and says where its first bad value is, or -1.
template <class T, class Check = Unchecked>
class Batch {
 public:
  Batch(py::handle value, const char* name, Check check = {}) : check_(check), name_(name) {
    if (is_plain_array<T>(value)) {
      copy<T>(py::reinterpret_borrow<py::array>(value));
    } else if (integer && is_plain_array<std::int32_t>(value)) {
      copy<std::int32_t>(py::reinterpret_borrow<py::array>(value));
    } else if (!read_scalar(value.ptr())) {
      convert(value);
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  const T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  bool scalar() const { return scalar_; }
  const char* name() const { return name_; }
  // Where the first bad value is, or -1.
  std::int64_t bad() const { return bad_; }

  std::string complain(std::int64_t position, const std::string& expected) const {
    return complaint(name_, position, scalar_, repr(py::cast(data()[position])), expected);
  }

 protected:
  const Check check_;

 private:
  static constexpr bool integer = std::is_same_v<T, std::int64_t>;

  template <class Item>
  static bool is_plain_array(py::handle value) {
    using api = py::detail::npy_api;
    constexpr int wanted = api::NPY_ARRAY_C_CONTIGUOUS_ | api::NPY_ARRAY_ALIGNED_;
    if (!py::isinstance<py::array>(value)) return false;
    const auto array = py::reinterpret_borrow<py::array>(value);
    return array.ndim() == 1 && (array.flags() & wanted) == wanted &&
           array.dtype().num() == py::dtype::num_of<Item>() && array.dtype().byteorder() == '=';
  }

  // Another thread may write to the caller's array while this call runs without the GIL: what is
  // checked and what is used must be the same values.
  template <class Item>
  void copy(const py::array& array) {
    constexpr std::int64_t piece = 4096;  // stays in the nearest cache
    size_ = array.size();
    T* const to = memory(size_);
    const auto* from = static_cast<const Item*>(array.data());
    for (std::int64_t j = 0; j < size_; j += piece) {
      const std::int64_t n = std::min(piece, size_ - j);
      std::copy_n(from + j, n, to + j);
      if (bad_ < 0) note(check_(to + j, n), j);
    }
    data_ = to;
  }

  void note(std::int64_t bad, std::int64_t from) {
    if (bad >= 0) bad_ = from + bad;
  }

  // Uninitialized, or of zeros where huge pages are worth it.
  T* memory(std::int64_t size) {
    if (size <= few) return few_;
    if (size < many) return (some_ = std::make_unique_for_overwrite<T[]>(size)).get();
    return many_.emplace(size).data();
  }

  void set_scalar(T value) {
    few_[0] = value;
    data_ = few_;
    size_ = 1;
    scalar_ = true;
    note(check_(data_, 1), 0);
  }

  // Python's own numbers, without a detour over NumPy.
  bool read_scalar(PyObject* value) {
    if constexpr (!integer) {
      if (PyFloat_Check(value)) {
        set_scalar(PyFloat_AS_DOUBLE(value));
        return true;
      }
    }
    if (!PyLong_CheckExact(value)) return false;
    if constexpr (integer) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
      if (overflow != 0) {
        throw py::index_error(complaint(name_, 0, true,
                                        repr(py::reinterpret_borrow<py::object>(value)),
                                        "an index of the tree"));
      }
      set_scalar(number);
    } else {
      const double number = PyLong_AsDouble(value);
      if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        throw py::value_error(std::string(name_) + " is an integer too large for float64");
      }
      set_scalar(number);
    }
    return true;
  }

  void convert(py::handle value) {
    const py::array array = as_array(value);
    const char kind = array.dtype().kind();
    const bool real = kind == 'i' || kind == 'u' || kind == 'f';
    // An empty list becomes an empty float array, so emptiness excuses the kind.
    if (!real || (integer && kind == 'f' && array.size() != 0)) {
      throw py::type_error(std::string(name_) + " has dtype " + repr(array.dtype()) +
                           ": expected " + (integer ? "integers" : "real numbers"));
    }
    if (array.ndim() > 1) {
      throw py::value_error(std::string(name_) + " has shape " + repr(array.attr("shape")) +
                            ": expected one dimension or a scalar");
    }
    if (integer && kind == 'u') reject_wrapping(array);
    // A fresh copy is aligned and in native byte order.
    const auto plain = array.attr("astype")(py::dtype::of<T>(), "C").template cast<py::array>();
    if (plain.ndim() == 0) {
      set_scalar(*static_cast<const T*>(plain.data()));
    } else {
      copy<T>(plain);
    }
  }

  py::array as_array(py::handle value) const {
    try {
      return py::module_::import("numpy").attr("asarray")(value);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
      throw py::type_error(std::string(name_) + " cannot be read as an array: " +
                           py::str(error.value()).cast<std::string>());
    }
  }

  // Unsigned values past int64 would wrap to negative indices, and be reported as such.
  void reject_wrapping(const py::array& array) const {
    const auto wide = array.attr("astype")("uint64", "C").template cast<py::array>();
    const auto* values = static_cast<const std::uint64_t*>(wide.data());
    for (std::int64_t j = 0; j < wide.size(); ++j) {
      if (values[j] > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw py::index_error(complaint(name_, j, array.ndim() == 0, std::to_string(values[j]),
                                        "an index of the tree"));
      }
    }
  }

  static constexpr std::int64_t few = 64, many = std::int64_t{1} << 19;

  const char* name_;
  const T* data_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t bad_ = -1;
  bool scalar_ = false;
  T few_[few];
  std::unique_ptr<T[]> some_;
  std::optional<PageArray<T>> many_;
};

using Values = Batch<double>;

// A new array for results, or, for a scalar call, one slot.
template <class T>
class Result {
 public:
  Result(std::int64_t size, bool scalar) : scalar_(scalar) {
    if (!scalar) array_ = new_array(size);
  }
  T* data() {
    return scalar_ ? &value_ : reinterpret_cast<T*>(py::detail::array_proxy(array_.ptr())->data);
  }
  py::object take() { return scalar_ ? py::cast(value_) : std::move(array_); }

 private:
  // What py::array_t does by way of vectors of shapes and strides.
  static py::object new_array(std::int64_t size) {
    auto& numpy = py::detail::npy_api::get();
    Py_intptr_t shape = size;
    PyObject* array = numpy.PyArray_NewFromDescr_(
        numpy.PyArray_Type_,
        numpy.PyArray_DescrFromType_(py::detail::npy_format_descriptor<T>::value), 1, &shape,
        nullptr, nullptr, 0, nullptr);
    if (array == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(array);
  }

  bool scalar_;
  T value_{};
  py::object array_;
};

}  // namespace rpa
