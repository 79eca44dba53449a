# Toolchain file for the NVIDIA HPC SDK:
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/nvhpc.cmake -DRLLIB_PER_ACC_OPENACC=nvhpc ...
#
# NOT TRIED: no such compiler was at hand when this was written. The flags follow its manual:
# -gpu=nordc in shared libraries. Bindings compiled by nvc++ are known to be fragile.
set(CMAKE_CXX_COMPILER nvc++)
