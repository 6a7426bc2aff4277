# SPDX-License-Identifier: Apache-2.0
# Arrow is the one that the pyarrow wheel carries: the headers to compile against, and the versioned
# libraries (libarrow.so.2600 for 26.x) by full path. At run time `import pyarrow` has loaded them
# already, so no RPATH is wanted.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import pyarrow as pa; print(pa.get_include(), pa.get_library_dirs()[0], pa.__version__, sep=';')"
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE PYARROW_INFO RESULT_VARIABLE PYARROW_MISSING)
if(PYARROW_MISSING)
  message(FATAL_ERROR "pyarrow is not installed for ${Python_EXECUTABLE}: run `make dev`")
endif()
list(GET PYARROW_INFO 0 PYARROW_INCLUDE)
list(GET PYARROW_INFO 1 PYARROW_LIBS)
list(GET PYARROW_INFO 2 PYARROW_VERSION)
if(NOT PYARROW_VERSION MATCHES "^26\\.")
  message(FATAL_ERROR "pyarrow 26.x is needed, found ${PYARROW_VERSION}")
endif()

foreach(part arrow arrow_compute arrow_acero arrow_flight)
  string(REGEX REPLACE "^arrow_" "" short ${part})
  add_library(Arrow::${short} SHARED IMPORTED)
  set_target_properties(Arrow::${short} PROPERTIES
    IMPORTED_LOCATION "${PYARROW_LIBS}/lib${part}.so.2600"
    INTERFACE_INCLUDE_DIRECTORIES "${PYARROW_INCLUDE}")
endforeach()
set(CMAKE_SKIP_BUILD_RPATH ON)
set(CMAKE_SKIP_INSTALL_RPATH ON)
