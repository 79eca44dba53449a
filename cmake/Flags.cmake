# Flags of every target. Contraction to fused multiply-add would change bits between compilers and
# machines; the pragmas of the OpenACC backend are comments to the host compiler.
add_library(rpa_flags INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "NVHPC")
  target_compile_options(rpa_flags INTERFACE -Mnofma)  # not tried, see nvhpc.cmake
else()
  target_compile_options(rpa_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas)
endif()
if(RLLIB_PER_ACC_SANITIZE)
  set(sanitize -fsanitize=${RLLIB_PER_ACC_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
  target_compile_options(rpa_flags INTERFACE ${sanitize})
  target_link_options(rpa_flags INTERFACE ${sanitize})
endif()
if(RLLIB_PER_ACC_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RLLIB_PER_ACC_FUZZ needs clang (apt-get install clang libclang-rt-14-dev), "
                        "the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(rpa_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
