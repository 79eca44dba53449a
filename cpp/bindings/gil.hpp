// Work during which other Python threads may run.
#pragma once

#include <Python.h>

#include <chrono>
#include <exception>
#include <thread>

namespace rpa {

// Takes the GIL again. Where the interpreter is ending, Python before 3.14 ends a thread that asks
// for the GIL by unwinding its stack: through destructors that would release Python's objects
// without the GIL, and through functions that let nothing out, which ends the process by a signal.
// So such a thread stops here, as it does in Python 3.14, until the process ends.
inline void take_gil(PyThreadState* thread) {
  try {
    PyEval_RestoreThread(thread);
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Runs `work` without the GIL; what it throws is thrown with the GIL.
template <class Work>
void without_gil(Work work) {
  PyThreadState* const thread = PyEval_SaveThread();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  take_gil(thread);
  if (error) std::rethrow_exception(error);
}

}  // namespace rpa
