// The macros of parallel.hpp for an adversarial schedule; see schedule.hpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "schedule.hpp"

#define RPA_FOR(i, first, last) \
  ::rpa::schedule::Loop{(first), (last)} << [&]([[maybe_unused]] const std::int64_t i)
#define RPA_LEVELS(i, first, last) for (std::int64_t i = (first); i < (last); ++i)
#define RPA_EXCHANGE(slot, value) std::atomic_ref<std::int64_t>(*(slot)).exchange(value)
