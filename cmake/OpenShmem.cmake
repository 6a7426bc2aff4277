# SPDX-License-Identifier: Apache-2.0
# OpenSHMEM is found through its compiler wrapper. Without one the core still builds; the provider
# module is left out and `flightshmem info` says so.
find_program(OSHCC oshcc)
set(OSHCC_FOUND OFF)
if(OSHCC)
  execute_process(COMMAND ${OSHCC} --showme:incdirs OUTPUT_VARIABLE OSH_INC OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE OSH_BAD)
  execute_process(COMMAND ${OSHCC} --showme:libdirs OUTPUT_VARIABLE OSH_LIBDIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(OSH_INC)
  separate_arguments(OSH_LIBDIR)
  find_library(OSHMEM_LIBRARY oshmem HINTS ${OSH_LIBDIR})
  if(NOT OSH_BAD AND OSHMEM_LIBRARY)
    set(OSHCC_FOUND ON)
    add_library(OpenShmem::oshmem INTERFACE IMPORTED)
    target_include_directories(OpenShmem::oshmem INTERFACE ${OSH_INC})
    target_link_libraries(OpenShmem::oshmem INTERFACE ${OSHMEM_LIBRARY})
  endif()
endif()
message(STATUS "OpenSHMEM provider: ${OSHCC_FOUND} (${OSHCC})")
