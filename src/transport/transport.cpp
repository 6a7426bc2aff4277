// SPDX-License-Identifier: Apache-2.0
#include "transport/transport.h"

#include "transport/reserved_area.h"

namespace flightshmem {

arrow::Status Transport::Barrier() {
  ++barriers_;
  return AwaitAll();
}

void Transport::SetPhase(std::string_view phase) {
  reinterpret_cast<ReservedArea*>(peer(my_pe()))->phase.Set(phase);
}

std::string Transport::PhaseOf(int pe) const {
  const std::byte* segment = peer(pe);
  return segment == nullptr ? "" : reinterpret_cast<const ReservedArea*>(segment)->phase.Get();
}

arrow::Status Transport::CheckRange(std::string_view call, GlobalPtr at, uint64_t size) const {
  if (at.pe < 0 || at.pe >= n_pes()) {
    return arrow::Status::IndexError("[", call, "] no such PE, got ", at.pe, ", PE ", my_pe(), "/",
                                     n_pes(), ": use 0 to ", n_pes() - 1);
  }
  // Written so that neither side can overflow.
  if (at.offset > segment_size() || size > segment_size() - at.offset) {
    return arrow::Status::IndexError("[", call, "] beyond the segment of ", segment_size(),
                                     " bytes, got offset ", at.offset, " and ", size, " bytes, PE ",
                                     my_pe(), "/", n_pes());
  }
  return arrow::Status::OK();
}

arrow::Status Transport::CheckAtomic(std::string_view call, GlobalPtr at, int width) const {
  ARROW_RETURN_NOT_OK(CheckRange(call, at, width));
  if (at.offset % width == 0) return arrow::Status::OK();
  return arrow::Status::Invalid("[", call, "] needs an offset that is a multiple of ", width,
                                ", got ", at.offset, ", PE ", my_pe(), "/", n_pes());
}

}  // namespace flightshmem
