// How the loops of a kernel run. The kernels are written once; who compiles them decides:
//
//   host            the pragmas are unknown to the compiler and the loops are plain loops
//   OpenACC         the pragma above a loop makes it a kernel, or the vector part of one
//   a schedule      a header named by RPA_SCHEDULE that defines the three macros below in its own
//                   way (the tests permute the iterations and split them over threads)
//
// RPA_FOR(i, first, last) { ... };     iterations are independent of each other
// RPA_LEVELS(i, first, last) { ... };  each iteration reads what the one before it wrote
// RPA_EXCHANGE(slot, value)            atomically stores a value and gives the one before it
#pragma once

#include <cstdint>

// The namespace of one compilation of the kernels, so that a program may link several.
#ifndef RPA_BACKEND
#define RPA_BACKEND serial
#endif

#ifdef RPA_SCHEDULE
#include RPA_SCHEDULE
#else

namespace rpa::RPA_BACKEND {

#pragma acc routine seq
inline std::int64_t exchange(std::int64_t* slot, std::int64_t value) {
  std::int64_t old;
#pragma acc atomic capture
  {
    old = *slot;
    *slot = value;
  }
  return old;
}

}  // namespace rpa::RPA_BACKEND

#define RPA_FOR(i, first, last) for (std::int64_t i = (first); i < (last); ++i)
#define RPA_LEVELS(i, first, last) for (std::int64_t i = (first); i < (last); ++i)
#define RPA_EXCHANGE(slot, value) exchange(slot, value)

#endif
