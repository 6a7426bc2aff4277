// SPDX-License-Identifier: Apache-2.0
#include "catalog/words.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace flightshmem {
namespace {

std::atomic_ref<uint64_t> Word(std::byte* at) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(at));
}

}  // namespace

Words::Words(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)), main_thread_(std::this_thread::get_id()) {}

std::byte* Words::pointer(GlobalPtr at) const {
  std::byte* base = transport_->peer(at.pe);
  return base == nullptr ? nullptr : base + at.offset;
}

arrow::Status Words::CheckReach(int pe) const {
  if (transport_->peer(pe) != nullptr || on_main_thread()) return arrow::Status::OK();
  return arrow::Status::NotImplemented("[catalog] PE ", pe, " is on another machine, PE ",
                                       transport_->my_pe(), "/", transport_->n_pes(),
                                       ": ask its own Flight server, or call on the main thread");
}

arrow::Result<uint64_t> Words::Load(GlobalPtr at) const {
  if (std::byte* here = pointer(at)) return Word(here).load();
  ARROW_RETURN_NOT_OK(CheckReach(at.pe));
  return transport_->FetchAdd<uint64_t>(at, 0);
}

arrow::Status Words::Store(GlobalPtr at, uint64_t value) const {
  if (std::byte* here = pointer(at)) {
    Word(here).store(value);
    return arrow::Status::OK();
  }
  // By swapping, since Put is bytes, not an atomic: a reader could see half a word.
  ARROW_ASSIGN_OR_RAISE(uint64_t before, Load(at));
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t found, CompareSwap(at, before, value));
    if (found == before) return arrow::Status::OK();
    before = found;
  }
}

arrow::Result<uint64_t> Words::CompareSwap(GlobalPtr at, uint64_t expected,
                                           uint64_t desired) const {
  if (std::byte* here = pointer(at)) {
    Word(here).compare_exchange_strong(expected, desired);
    return expected;
  }
  ARROW_RETURN_NOT_OK(CheckReach(at.pe));
  return transport_->CompareSwap<uint64_t>(at, expected, desired);
}

arrow::Status Words::Read(void* out, GlobalPtr from, uint64_t size) const {
  if (const std::byte* here = pointer(from)) {
    std::memcpy(out, here, size);
    return arrow::Status::OK();
  }
  ARROW_RETURN_NOT_OK(CheckReach(from.pe));
  return transport_->Get(out, from, size);
}

}  // namespace flightshmem
