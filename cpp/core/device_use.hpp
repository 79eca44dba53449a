// What using a device means for the process. Backends without a device have nothing to ask.
#pragma once

#include <cstddef>

#include "parallel.hpp"

namespace rpa::RPA_BACKEND {

#ifdef _OPENACC

// To be called before the first use of the device, and before memory is allocated there: whether
// `bytes` are free. (Where the OpenACC runtime fails to allocate, it ends the process.)
bool claim_device(std::size_t bytes);

// Whether this process was forked from one that used the device, which must not be touched then.
bool lost_to_fork();

#else

inline bool claim_device(std::size_t) { return true; }
inline bool lost_to_fork() { return false; }

#endif

}  // namespace rpa::RPA_BACKEND
