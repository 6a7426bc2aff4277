// SPDX-License-Identifier: Apache-2.0
//
// The words of the catalog in every PE's segment and the protocol on them. Knows entries, pins and
// hashes; what a version consists of is the catalog's business (descriptor.h).
//
//   directory of a PE, at Transport::kReservedBytes:
//     [lock] [slot 0 .. kSlots-1: name hash, current entry] [entry 0 .. kEntries-1]
//   entry:  [word][version][descriptor: pe, offset, size][predecessor]
//   word:   generation:32 | state:8 | pins:24
//
// A name lives in the directory of its home PE, in the first slot after its hash that was free.
// Slots are told apart by the name in the version's descriptor, so a slot is two plain words and
// can be given to another name at once.
//
//   publish   lock · fill a FREE entry · word := PUBLISHED · slot.current := entry · retire the
//             entry that was current · unlock
//   pin       word: +1 pin by compare-swap, if generation and PUBLISHED still hold; else look again
//   unpin     word: -1 pin; whoever leaves a RETIRED entry without pins makes it FREE with the next
//             generation, and unpins its predecessor
//
// Owners of blocks see from the generation that a version is gone.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/words.h"

namespace flightshmem {

// Names one version of one table for ever (generations do not repeat within a job).
struct EntryId {
  int32_t home_pe = -1;
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const EntryId&) const = default;
};

struct EntryFields {
  uint64_t version = 0;
  GlobalPtr descriptor;
  uint64_t descriptor_bytes = 0;
  // Pinned as long as this entry is in use.
  std::optional<EntryId> predecessor;
};

class Directory {
 public:
  static constexpr uint64_t kOffset = Transport::kReservedBytes;
  static constexpr uint64_t kBytes = 1 << 20;
  static constexpr uint64_t kSlots = 4096;    // names per home PE
  static constexpr uint64_t kEntries = 8192;  // versions alive per home PE

  // True when the entry's version has the name looked for.
  using IsNamed = std::function<arrow::Result<bool>(const EntryFields&)>;

  // REQUIRES: the transport's main thread.
  explicit Directory(std::shared_ptr<Transport> transport) : words_(std::move(transport)) {}

  const Words& words() const { return words_; }
  void ClearMine() const;
  static uint64_t Hash(const std::string& name);
  int HomeOf(uint64_t hash) const;

  // The current entry of the name, pinned, and its fields; nothing when there is none.
  struct Pinned {
    EntryId id;
    EntryFields fields;
  };
  arrow::Result<std::optional<Pinned>> PinCurrent(uint64_t hash, const IsNamed& is_named) const;
  // Calls `visit` with every current entry of `pe`, pinned meanwhile.
  arrow::Status VisitCurrent(int pe,
                             const std::function<arrow::Status(const EntryFields&)>& visit) const;
  arrow::Status Unpin(EntryId id) const;
  arrow::Result<bool> IsGone(EntryId id) const;

  // One change of a name's current entry.
  struct Change {
    uint64_t hash = 0;
    IsNamed is_named;
    // What to make current, given the fields of what is current now (null: no such name). Nothing:
    // the name is dropped. A failure changes nothing. Called with the directory locked: short.
    std::function<arrow::Result<std::optional<EntryFields>>(const EntryId*, const EntryFields*)>
        next;
  };
  // Returns the entry made current, or nothing for a drop.
  arrow::Result<std::optional<EntryId>> Apply(const Change& change) const;

 private:
  struct Slot {
    std::optional<uint64_t> index;  // where the name is or can be put; nothing: all are taken
    std::optional<EntryId> current;
    EntryFields fields;  // of `current`
  };

  arrow::Status Lock(int pe) const;
  arrow::Result<Slot> FindSlot(const Change& change, int pe) const;
  arrow::Result<std::optional<EntryId>> ApplyLocked(const Change& change, int pe) const;
  arrow::Result<EntryId> Publish(int pe, const EntryFields& fields) const;
  arrow::Result<uint32_t> FindFree(int pe, uint64_t* word) const;
  arrow::Status Retire(EntryId id) const;
  arrow::Result<bool> TryPin(EntryId id) const;
  arrow::Result<bool> TryFree(EntryId id, std::optional<EntryId>* predecessor) const;
  arrow::Result<EntryFields> ReadFields(EntryId id) const;
  arrow::Result<std::optional<EntryId>> Current(int pe, uint64_t slot) const;

  Words words_;
};

}  // namespace flightshmem
