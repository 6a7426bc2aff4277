// SPDX-License-Identifier: Apache-2.0
#include "catalog/directory.h"

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstring>

namespace flightshmem {
namespace {

struct SlotWords {
  uint64_t hash;     // 0: never used, a search may end here
  uint64_t current;  // packed entry, 0: none
};

struct EntryWords {
  uint64_t word;
  uint64_t version;
  uint64_t descriptor_pe;
  uint64_t descriptor_offset;
  uint64_t descriptor_bytes;
  uint64_t predecessor;  // packed entry of the same directory, 0: none
  uint64_t unused[2];
};

struct DirectoryWords {
  uint64_t lock;  // 0, or 1 + the PE that holds it
  uint64_t unused[7];
  SlotWords slots[Directory::kSlots];
  EntryWords entries[Directory::kEntries];
};
static_assert(sizeof(EntryWords) == 64);
static_assert(sizeof(DirectoryWords) <= Directory::kBytes);

enum class State : uint8_t { kFree = 0, kPublished = 1, kRetired = 2 };

constexpr int kGenerationShift = 32;
constexpr int kStateShift = 24;
constexpr uint64_t kPinMask = (1 << kStateShift) - 1;
constexpr double kLockTimeoutS = 60;

uint64_t MakeWord(uint32_t generation, State state, uint64_t pins) {
  return static_cast<uint64_t>(generation) << kGenerationShift |
         static_cast<uint64_t>(state) << kStateShift | pins;
}
uint32_t GenerationOf(uint64_t word) { return static_cast<uint32_t>(word >> kGenerationShift); }
State StateOf(uint64_t word) { return static_cast<State>(word >> kStateShift & 0xFF); }
uint64_t PinsOf(uint64_t word) { return word & kPinMask; }

uint64_t Pack(EntryId id) {
  return static_cast<uint64_t>(id.generation) << kGenerationShift | (id.index + 1);
}
std::optional<EntryId> Unpack(int pe, uint64_t packed) {
  if (packed == 0) return std::nullopt;
  return EntryId{pe, static_cast<uint32_t>(packed) - 1,
                 static_cast<uint32_t>(packed >> kGenerationShift)};
}

GlobalPtr LockAt(int pe) { return {pe, Directory::kOffset + offsetof(DirectoryWords, lock)}; }
GlobalPtr SlotAt(int pe, uint64_t index, uint64_t field) {
  return {pe,
          Directory::kOffset + offsetof(DirectoryWords, slots) + index * sizeof(SlotWords) + field};
}
GlobalPtr EntryAt(int pe, uint64_t index, uint64_t field) {
  return {pe, Directory::kOffset + offsetof(DirectoryWords, entries) + index * sizeof(EntryWords) +
                  field};
}
GlobalPtr WordAt(EntryId id) { return EntryAt(id.home_pe, id.index, offsetof(EntryWords, word)); }

}  // namespace

void Directory::ClearMine() const {
  std::memset(words_.pointer({words_.transport().my_pe(), kOffset}), 0, sizeof(DirectoryWords));
}

// FNV-1a; the same on every PE and never 0, which marks an unused slot.
uint64_t Directory::Hash(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash == 0 ? 1 : hash;
}

// The high bits choose the PE, the low ones the slot.
int Directory::HomeOf(uint64_t hash) const {
  return static_cast<int>((hash >> 32) % static_cast<uint64_t>(words_.transport().n_pes()));
}

arrow::Result<std::optional<EntryId>> Directory::Current(int pe, uint64_t slot) const {
  ARROW_ASSIGN_OR_RAISE(const uint64_t packed,
                        words_.Load(SlotAt(pe, slot, offsetof(SlotWords, current))));
  return Unpack(pe, packed);
}

arrow::Result<bool> Directory::TryPin(EntryId id) const {
  ARROW_ASSIGN_OR_RAISE(uint64_t word, words_.Load(WordAt(id)));
  while (GenerationOf(word) == id.generation && StateOf(word) == State::kPublished) {
    if (PinsOf(word) == kPinMask) {
      return arrow::Status::CapacityError("[catalog] a table has ", kPinMask,
                                          " readers: close some");
    }
    ARROW_ASSIGN_OR_RAISE(const uint64_t before, words_.CompareSwap(WordAt(id), word, word + 1));
    if (before == word) return true;
    word = before;
  }
  return false;
}

arrow::Result<EntryFields> Directory::ReadFields(EntryId id) const {
  EntryWords words;
  ARROW_RETURN_NOT_OK(words_.Read(&words.version, EntryAt(id.home_pe, id.index, 8),
                                  sizeof(words) - sizeof(words.word)));
  return EntryFields{words.version,
                     {static_cast<int32_t>(words.descriptor_pe), words.descriptor_offset},
                     words.descriptor_bytes,
                     Unpack(id.home_pe, words.predecessor)};
}

arrow::Result<std::optional<Directory::Pinned>> Directory::PinCurrent(
    uint64_t hash, const IsNamed& is_named) const {
  const int pe = HomeOf(hash);
  uint64_t probed = 0;
  while (probed < kSlots) {
    const uint64_t slot = (hash + probed) % kSlots;
    ARROW_ASSIGN_OR_RAISE(const uint64_t found,
                          words_.Load(SlotAt(pe, slot, offsetof(SlotWords, hash))));
    if (found == 0) return std::nullopt;
    ++probed;
    if (found != hash) continue;
    ARROW_ASSIGN_OR_RAISE(const auto id, Current(pe, slot));
    if (!id) continue;
    ARROW_ASSIGN_OR_RAISE(const bool pinned, TryPin(*id));
    if (!pinned) {  // replaced or dropped this moment
      probed = 0;
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(const EntryFields fields, ReadFields(*id));
    ARROW_ASSIGN_OR_RAISE(const bool named, is_named(fields));
    if (named) return Pinned{*id, fields};
    ARROW_RETURN_NOT_OK(Unpin(*id));
  }
  return std::nullopt;
}

arrow::Status Directory::VisitCurrent(
    int pe, const std::function<arrow::Status(const EntryFields&)>& visit) const {
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    ARROW_ASSIGN_OR_RAISE(auto id, Current(pe, slot));
    while (id) {
      ARROW_ASSIGN_OR_RAISE(const bool pinned, TryPin(*id));
      if (pinned) break;
      ARROW_ASSIGN_OR_RAISE(id, Current(pe, slot));
    }
    if (!id) continue;
    ARROW_ASSIGN_OR_RAISE(const EntryFields fields, ReadFields(*id));
    const arrow::Status visited = visit(fields);
    ARROW_RETURN_NOT_OK(Unpin(*id));
    ARROW_RETURN_NOT_OK(visited);
  }
  return arrow::Status::OK();
}

arrow::Result<bool> Directory::IsGone(EntryId id) const {
  ARROW_ASSIGN_OR_RAISE(const uint64_t word, words_.Load(WordAt(id)));
  return GenerationOf(word) != id.generation;
}

// The predecessor is read before the entry is given up: afterwards the fields are another's.
arrow::Result<bool> Directory::TryFree(EntryId id, std::optional<EntryId>* predecessor) const {
  ARROW_ASSIGN_OR_RAISE(const EntryFields fields, ReadFields(id));
  *predecessor = fields.predecessor;
  const uint64_t idle = MakeWord(id.generation, State::kRetired, 0);
  ARROW_ASSIGN_OR_RAISE(
      const uint64_t before,
      words_.CompareSwap(WordAt(id), idle, MakeWord(id.generation + 1, State::kFree, 0)));
  return before == idle;
}

arrow::Status Directory::Unpin(EntryId id) const {
  std::optional<EntryId> next = id;
  while (next) {  // a version that goes away unpins its predecessor, and so on
    const EntryId entry = *next;
    next.reset();
    ARROW_ASSIGN_OR_RAISE(uint64_t word, words_.Load(WordAt(entry)));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const uint64_t before,
                            words_.CompareSwap(WordAt(entry), word, word - 1));
      if (before == word) break;
      word = before;
    }
    if (StateOf(word) != State::kRetired || PinsOf(word) != 1) continue;
    std::optional<EntryId> predecessor;
    ARROW_ASSIGN_OR_RAISE(const bool freed, TryFree(entry, &predecessor));
    if (freed) next = predecessor;
  }
  return arrow::Status::OK();
}

// Retiring is an unpin of its own: the writer pins the entry, so that what happens when the last
// pin of a retired entry goes is in one place.
arrow::Status Directory::Retire(EntryId id) const {
  ARROW_ASSIGN_OR_RAISE(uint64_t word, words_.Load(WordAt(id)));
  while (true) {
    const uint64_t retired = MakeWord(id.generation, State::kRetired, PinsOf(word) + 1);
    ARROW_ASSIGN_OR_RAISE(const uint64_t before, words_.CompareSwap(WordAt(id), word, retired));
    if (before == word) break;
    word = before;
  }
  return Unpin(id);
}

arrow::Status Directory::Lock(int pe) const {
  ARROW_RETURN_NOT_OK(words_.CheckReach(pe));
  const auto mine = static_cast<uint64_t>(words_.transport().my_pe()) + 1;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t holder, words_.CompareSwap(LockAt(pe), 0, mine));
    if (holder == 0) return arrow::Status::OK();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > kLockTimeoutS) {
      return arrow::Status::IOError("[catalog] PE ", holder - 1, " has held the directory of PE ",
                                    pe, " for ", kLockTimeoutS, " s, PE ", mine - 1, "/",
                                    words_.transport().n_pes(),
                                    ": it seems stuck, look at its output");
    }
    sched_yield();
  }
}

arrow::Result<Directory::Slot> Directory::FindSlot(const Change& change, int pe) const {
  Slot slot;
  for (uint64_t probed = 0; probed < kSlots; ++probed) {
    const uint64_t index = (change.hash + probed) % kSlots;
    ARROW_ASSIGN_OR_RAISE(const uint64_t found,
                          words_.Load(SlotAt(pe, index, offsetof(SlotWords, hash))));
    ARROW_ASSIGN_OR_RAISE(const auto id, Current(pe, index));
    if (!id && !slot.index) slot.index = index;
    if (found == 0) break;
    if (!id || found != change.hash) continue;
    ARROW_ASSIGN_OR_RAISE(const EntryFields fields, ReadFields(*id));
    ARROW_ASSIGN_OR_RAISE(const bool named, change.is_named(fields));
    if (named) return Slot{index, id, fields};
  }
  return slot;
}

arrow::Result<uint32_t> Directory::FindFree(int pe, uint64_t* word) const {
  for (uint32_t index = 0; index < kEntries; ++index) {
    ARROW_ASSIGN_OR_RAISE(*word, words_.Load(EntryAt(pe, index, offsetof(EntryWords, word))));
    if (StateOf(*word) == State::kFree) return index;
  }
  return arrow::Status::CapacityError("[publish] the catalog of PE ", pe, " is full, got ",
                                      kEntries,
                                      " versions in use: close readers of replaced tables or drop "
                                      "tables");
}

arrow::Result<EntryId> Directory::Publish(int pe, const EntryFields& fields) const {
  uint64_t word;
  ARROW_ASSIGN_OR_RAISE(const uint32_t index, FindFree(pe, &word));
  const EntryId id{pe, index, GenerationOf(word)};
  if (fields.predecessor) {  // it is current and the directory is locked: it cannot go away
    ARROW_ASSIGN_OR_RAISE([[maybe_unused]] const bool pinned, TryPin(*fields.predecessor));
  }
  const uint64_t values[] = {fields.version, static_cast<uint64_t>(fields.descriptor.pe),
                             fields.descriptor.offset, fields.descriptor_bytes,
                             fields.predecessor ? Pack(*fields.predecessor) : 0};
  for (uint64_t i = 0; i < std::size(values); ++i) {
    ARROW_RETURN_NOT_OK(
        words_.Store(EntryAt(pe, index, offsetof(EntryWords, version) + i * 8), values[i]));
  }
  ARROW_RETURN_NOT_OK(words_.Store(WordAt(id), MakeWord(id.generation, State::kPublished, 0)));
  return id;
}

arrow::Result<std::optional<EntryId>> Directory::ApplyLocked(const Change& change, int pe) const {
  ARROW_ASSIGN_OR_RAISE(const Slot slot, FindSlot(change, pe));
  ARROW_ASSIGN_OR_RAISE(const auto fields, change.next(slot.current ? &*slot.current : nullptr,
                                                       slot.current ? &slot.fields : nullptr));
  std::optional<EntryId> entry;
  if (fields) {
    if (!slot.index) {
      return arrow::Status::CapacityError("[publish] the catalog of PE ", pe, " is full, got ",
                                          kSlots, " tables: drop some");
    }
    ARROW_ASSIGN_OR_RAISE(entry, Publish(pe, *fields));
    ARROW_RETURN_NOT_OK(
        words_.Store(SlotAt(pe, *slot.index, offsetof(SlotWords, hash)), change.hash));
  }
  if (slot.index) {
    ARROW_RETURN_NOT_OK(words_.Store(SlotAt(pe, *slot.index, offsetof(SlotWords, current)),
                                     entry ? Pack(*entry) : 0));
  }
  if (slot.current) ARROW_RETURN_NOT_OK(Retire(*slot.current));
  return entry;
}

arrow::Result<std::optional<EntryId>> Directory::Apply(const Change& change) const {
  const int pe = HomeOf(change.hash);
  ARROW_RETURN_NOT_OK(Lock(pe));
  auto applied = ApplyLocked(change, pe);
  ARROW_RETURN_NOT_OK(words_.Store(LockAt(pe), 0));
  return applied;
}

}  // namespace flightshmem
