// SPDX-License-Identifier: Apache-2.0
//
// How transports come to be. Which one is used is decided above (runtime.py); this layer only
// builds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace flightshmem {

struct TransportOptions {
  uint64_t segment_bytes = 0;         // per PE, kReservedBytes included; a multiple of kPageBytes
  double collective_timeout_s = 600;  // a collective waits this long for absent PEs, then fails
  // Called by the owning thread while it waits, at least ten times a second and after every signal:
  // a status that is not OK ends the wait with it, on all PEs. May be empty.
  std::function<arrow::Status()> check_interrupt;
};

// The embedded provider: N processes of one machine over one memory file.
// `segment_fd` is a memory file made by CreateSegmentFile and inherited from the launcher.
// Collective over the n_pes processes.
arrow::Result<std::shared_ptr<Transport>> OpenPosixShm(const TransportOptions& options, int my_pe,
                                                       int n_pes, int segment_fd);
// One PE alone, with a memory file of its own.
arrow::Result<std::shared_ptr<Transport>> OpenPosixShmAlone(const TransportOptions& options);
// N PEs as N threads of this process (tests): element k is to be used by thread k only.
arrow::Result<std::vector<std::shared_ptr<Transport>>> OpenPosixShmThreads(
    const TransportOptions& options, int n_pes);
// An anonymous memory file (memfd: no name, so nothing can be left behind) for n_pes segments.
// The caller owns the descriptor, which is inheritable.
arrow::Result<int> CreateSegmentFile(uint64_t segment_bytes, int n_pes);

struct OpenShmemOptions {
  std::string module_path;   // of the module built from openshmem.cpp
  bool is_started = false;   // somebody (shmem4py) has initialised the library already
  bool may_shrink = false;   // segment_bytes is a wish: take what the library's heap has
  uint64_t slack_bytes = 0;  // what a shrunk segment leaves free there
};

// A real OpenSHMEM library, by way of the module, which is loaded with dlopen and stays. The
// library's environment must have been prepared (flightshmem/runtime/openshmem.py). If this call
// initialises the library, the library is finalised when the process exits, not before: views of
// the segment stay valid. A second call fails. Main thread. Collective.
arrow::Result<std::shared_ptr<Transport>> OpenOpenShmem(const TransportOptions& options,
                                                        const OpenShmemOptions& library);

// The one symbol of the module.
using OpenShmemEntry = void (*)(const TransportOptions& options, const OpenShmemOptions& library,
                                arrow::Result<std::shared_ptr<Transport>>* out);
inline constexpr const char* kOpenShmemEntry = "flightshmem_open_openshmem";

}  // namespace flightshmem
