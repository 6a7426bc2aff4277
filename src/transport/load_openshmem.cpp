// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "transport/error_detail.h"
#include "transport/providers.h"

namespace flightshmem {

arrow::Result<std::shared_ptr<Transport>> OpenOpenShmem(const TransportOptions& options,
                                                        const OpenShmemOptions& library) {
  // Global: Open MPI's plugins look for the library's symbols there. Never closed: the library
  // cannot be started twice in a process.
  void* module = dlopen(library.module_path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = module == nullptr ? nullptr : dlsym(module, kOpenShmemEntry);
  if (entry == nullptr) {
    return MakeError(arrow::StatusCode::IOError, "TransportUnavailable",
                     "[init] cannot load the OpenSHMEM provider: ", dlerror(),
                     ": install the OpenSHMEM library it was built with (Debian: openmpi-bin), or "
                     "use --transport posix_shm");
  }
  arrow::Result<std::shared_ptr<Transport>> transport;
  reinterpret_cast<OpenShmemEntry>(entry)(options, library, &transport);
  return transport;
}

}  // namespace flightshmem
